! ranks: 2
! Procedures that programs rarely call.
program rare
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  integer :: me, np, n, i, class, code, major, minor, indices(3), length, size
  integer(1), target :: room(4096), other_room(4096)
  type(c_ptr) :: at
  integer :: detached
  logical :: flag, yes, no
  character(len=40) :: value
  type(MPI_Comm) :: comm, other
  type(MPI_Group) :: group
  type(MPI_Info) :: info
  type(MPI_Request) :: request, requests(3)
  type(MPI_Session) :: session
  type(MPI_Datatype) :: pair
  type(MPI_Errhandler) :: handler
  type(MPI_Status) :: statuses(3)
  type(MPI_Win) :: win
  type(MPI_File) :: file
  integer(MPI_COUNT_KIND) :: lb, extent
  integer, asynchronous :: a(6), b(6)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)

  call MPI_Abi_get_version(major, minor)
  if (major < 1 .or. minor < 0) error stop 'the version of the ABI'
  call MPI_Abi_get_info(info)
  call MPI_Info_get(info, 'mpi_count_size', len(value), value, flag)
  if (.not. flag .or. value /= '8') error stop 'the sizes of the ABI'
  call MPI_Info_free(info)
  call MPI_Get_hw_resource_info(info)
  call MPI_Info_get_nkeys(info, n)
  call MPI_Info_free(info)
  call MPI_Info_create_env(info)
  call MPI_Info_get_string(info, 'wdir', length, value, flag)
  call MPI_Info_free(info)

  ! Error classes come and go.
  call MPI_Add_error_class(class)
  call MPI_Add_error_code(class, code)
  call MPI_Add_error_string(code, 'a rare error')
  call MPI_Error_string(code, value, length)
  if (value /= 'a rare error' .or. length /= 12) error stop 'the text of an error'
  call MPI_Remove_error_string(code)
  call MPI_Remove_error_code(code)
  call MPI_Remove_error_class(class)

  ! A persistent barrier.
  call MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, request)
  do i = 1, 3
    call MPI_Start(request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
  end do
  call MPI_Request_free(request)

  ! Indices begin with 1.
  requests(1) = MPI_REQUEST_NULL
  a = [(100 * me + i, i=1, 6)]
  b = -1
  call MPI_Irecv(b(6:2:-2), 3, MPI_INTEGER, 1 - me, 5, MPI_COMM_WORLD, requests(2))
  call MPI_Isend(a(1:6:2), 3, MPI_INTEGER, 1 - me, 5, MPI_COMM_WORLD, requests(3))
  n = 0
  do while (n < 2)
    call MPI_Request_get_status_some(3, requests, n, indices, statuses)
  end do
  if (n /= 2 .or. any(indices(:2) /= [2, 3])) error stop 'the complete requests'
  call MPI_Request_get_status_any(3, requests, i, flag, statuses(1))
  if (.not. flag .or. i /= 2) error stop 'the first complete request'
  call MPI_Status_get_source(statuses(1), n)
  if (n /= 1 - me) error stop 'the source'
  call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE)
  if (any(b(6:2:-2) /= [(100 * (1 - me) + i, i=1, 5, 2)])) error stop 'the section'

  ! Buffered sends of one communicator and of a session.
  call MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, comm)
  call MPI_Info_create(info)
  call MPI_Info_set(info, 'mpi_assert_no_any_tag', 'true')
  call MPI_Comm_set_info(comm, info)
  call MPI_Info_free(info)
  call MPI_Comm_get_info(comm, info)
  call MPI_Info_free(info)
  call MPI_Comm_attach_buffer(comm, room, 4096)
  call MPI_Bsend(a(6:1:-1), 6, MPI_INTEGER, 1 - me, 6, comm)
  call MPI_Comm_iflush_buffer(comm, request)
  call MPI_Recv(b, 6, MPI_INTEGER, 1 - me, 6, comm, MPI_STATUS_IGNORE)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  if (any(b /= [(100 * (1 - me) + i, i=6, 1, -1)])) error stop 'a buffered section'
  call MPI_Comm_flush_buffer(comm)
  call MPI_Comm_detach_buffer(comm, at, detached)
  if (detached /= 4096 .or. .not. c_associated(at, c_loc(room))) error stop 'the buffer of comm'
  call MPI_Buffer_attach(room, 4096)
  call MPI_Buffer_iflush(request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call MPI_Buffer_flush()
  call MPI_Buffer_detach(at, detached)
  if (detached /= 4096 .or. .not. c_associated(at, c_loc(room))) error stop 'the buffer'

  call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session)
  call MPI_Session_set_errhandler(session, MPI_ERRORS_ARE_FATAL)
  call MPI_Session_get_errhandler(session, handler)
  if (handler /= MPI_ERRORS_ARE_FATAL) error stop 'the error handler of a session'
  call MPI_Session_get_info(session, info)
  call MPI_Info_free(info)
  call MPI_Session_attach_buffer(session, other_room, 4096)
  call MPI_Group_from_session_pset(session, 'mpi://WORLD', group)
  call MPI_Comm_create_from_group(group, 'rare', MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, other)
  call MPI_Bsend(a, 6, MPI_INTEGER, 1 - me, 7, other)
  call MPI_Recv(b, 6, MPI_INTEGER, 1 - me, 7, other, MPI_STATUS_IGNORE)
  if (any(b /= [(100 * (1 - me) + i, i=1, 6)])) error stop 'a message of a session'
  call MPI_Session_iflush_buffer(session, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call MPI_Session_flush_buffer(session)
  call MPI_Session_detach_buffer(session, at, detached)
  if (detached /= 4096 .or. .not. c_associated(at, c_loc(other_room))) error stop 'its buffer'
  call MPI_Comm_free(other)
  call MPI_Group_free(group)
  call MPI_Session_finalize(session)

  ! Two groups of one process each.
  block
    type(MPI_Group) :: world, mine, theirs
    integer :: got
    call MPI_Comm_group(MPI_COMM_WORLD, world)
    call MPI_Group_incl(world, 1, [me], mine)
    call MPI_Group_incl(world, 1, [1 - me], theirs)
    call MPI_Intercomm_create_from_groups(mine, 0, theirs, 0, 'rare groups', MPI_INFO_NULL, &
                                          MPI_ERRORS_ARE_FATAL, other)
    call MPI_Comm_remote_size(other, n)
    if (n /= 1) error stop 'the intercommunicator'
    call MPI_Sendrecv(me, 1, MPI_INTEGER, 0, 1, got, 1, MPI_INTEGER, 0, 1, other, &
                      MPI_STATUS_IGNORE)
    if (got /= 1 - me) error stop 'a message between groups'
    call MPI_Comm_free(other)
    call MPI_Group_free(world)
    call MPI_Group_free(mine)
    call MPI_Group_free(theirs)
  end block

  call MPI_Type_get_value_index(MPI_DOUBLE_PRECISION, MPI_INTEGER, pair)
  call MPI_Type_get_value_index(MPI_REAL, MPI_INTEGER, pair)
  call MPI_Type_get_true_extent_x(MPI_DOUBLE_PRECISION, lb, extent)
  if (lb /= 0 .or. extent /= 8) error stop 'the true extent'

  ! Windows.
  call MPI_Win_create(a, 24_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
  call MPI_Info_create(info)
  call MPI_Info_set(info, 'no_locks', 'false')
  call MPI_Win_set_info(win, info)
  call MPI_Info_free(info)
  call MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN)
  call MPI_Win_get_errhandler(win, handler)
  if (handler /= MPI_ERRORS_RETURN) error stop 'the error handler of a window'
  call MPI_Win_lock_all(0, win)
  b = -1
  call MPI_Get(b(6:1:-1), 6, MPI_INTEGER, 1 - me, 0_MPI_ADDRESS_KIND, 6, MPI_INTEGER, win)
  call MPI_Win_flush_local_all(win)
  call MPI_Win_unlock_all(win)
  if (any(b(6:1:-1) /= [(100 * (1 - me) + i, i=1, 6)])) error stop 'what was got'
  call MPI_Comm_group(MPI_COMM_WORLD, group)
  call MPI_Win_post(group, 0, win)
  call MPI_Win_start(group, 0, win)
  call MPI_Win_complete(win)
  flag = .false.
  do while (.not. flag)
    call MPI_Win_test(win, flag)
  end do
  call MPI_Group_free(group)
  call MPI_Win_free(win)

  ! LOGICALs of the compiler.
  call MPI_Abi_set_fortran_booleans(storage_size(yes) / 8, .true., .false.)
  yes = .false.
  no = .true.
  call MPI_Abi_get_fortran_booleans(storage_size(yes) / 8, yes, no, flag)
  if (.not. (flag .and. yes) .or. no) error stop 'LOGICALs'
  call MPI_File_open(MPI_COMM_WORLD, 'rare.dat', MPI_MODE_CREATE + MPI_MODE_RDWR + &
                     MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file)
  call MPI_File_call_errhandler(file, MPI_ERR_IO, code)
  if (code /= MPI_SUCCESS) error stop 'the error handler of a file'
  call MPI_File_close(file)
  call MPI_Comm_free(comm)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
