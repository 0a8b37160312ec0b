! ranks: 1 2
! Procedures that a program passes to the library, of each kind, with mpi_f08: of modules, and
! internal ones, which see the variables of their host. Predefined procedures and attributes.
module callbacks
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  integer :: calls(20) = 0, last_code = 0
  integer(MPI_ADDRESS_KIND) :: last_state = 0
  type(MPI_Comm) :: last_comm
  type(MPI_Win) :: last_win
  type(MPI_File) :: last_file
  type(MPI_Session) :: last_session
contains
  subroutine comm_errors(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code
    calls(1) = calls(1) + 1
    last_comm = comm
    last_code = error_code
  end subroutine

  subroutine win_errors(win, error_code)
    type(MPI_Win) :: win
    integer :: error_code
    calls(2) = calls(2) + 1
    last_win = win
    last_code = error_code
  end subroutine

  subroutine file_errors(file, error_code)
    type(MPI_File) :: file
    integer :: error_code
    calls(3) = calls(3) + 1
    last_file = file
    last_code = error_code
  end subroutine

  subroutine session_errors(session, error_code)
    type(MPI_Session) :: session
    integer :: error_code
    calls(4) = calls(4) + 1
    last_session = session
    last_code = error_code
  end subroutine

  subroutine comm_copy(oldcomm, comm_keyval, extra_state, attribute_val_in, attribute_val_out, &
                       flag, ierror)
    type(MPI_Comm) :: oldcomm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    calls(5) = calls(5) + 1
    last_comm = oldcomm
    attribute_val_out = attribute_val_in + extra_state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine comm_delete(comm, comm_keyval, attribute_val, extra_state, ierror)
    type(MPI_Comm) :: comm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    calls(6) = calls(6) + 1
    last_state = attribute_val
    ierror = MPI_SUCCESS
  end subroutine

  subroutine type_copy(oldtype, type_keyval, extra_state, attribute_val_in, attribute_val_out, &
                       flag, ierror)
    type(MPI_Datatype) :: oldtype
    integer :: type_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    calls(7) = calls(7) + 1
    flag = .false.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine type_delete(datatype, type_keyval, attribute_val, extra_state, ierror)
    type(MPI_Datatype) :: datatype
    integer :: type_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    calls(8) = calls(8) + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine win_copy(oldwin, win_keyval, extra_state, attribute_val_in, attribute_val_out, flag, &
                      ierror)
    type(MPI_Win) :: oldwin
    integer :: win_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine win_delete(win, win_keyval, attribute_val, extra_state, ierror)
    type(MPI_Win) :: win
    integer :: win_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    calls(9) = calls(9) + 1
    last_state = extra_state
    ierror = MPI_SUCCESS
  end subroutine

  subroutine query(extra_state, status, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    type(MPI_Status) :: status
    integer :: ierror
    calls(10) = calls(10) + 1
    status%MPI_SOURCE = int(extra_state)
    status%MPI_TAG = 3
    call MPI_Status_set_elements(status, MPI_INTEGER, 4)
    call MPI_Status_set_cancelled(status, .false.)
    ierror = MPI_SUCCESS
  end subroutine

  subroutine release(extra_state, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    calls(11) = calls(11) + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine cancel(extra_state, complete, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    calls(12) = calls(12) + merge(10, 1, complete)
    ierror = MPI_SUCCESS
  end subroutine

  ! In the file each INTEGER is negated.
  subroutine negate(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer :: count, ierror
    integer(MPI_OFFSET_KIND) :: position
    integer(MPI_ADDRESS_KIND) :: extra_state
    integer, pointer :: user(:), file(:)
    call c_f_pointer(userbuf, user, [position + count])
    call c_f_pointer(filebuf, file, [count])
    if (extra_state == 1) file = -user(position + 1:)
    if (extra_state == 2) user(position + 1:) = -file
    ierror = merge(MPI_SUCCESS, MPI_ERR_TYPE, datatype == MPI_INTEGER)
  end subroutine

  subroutine write_large(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer(MPI_COUNT_KIND) :: count
    integer(MPI_OFFSET_KIND) :: position
    integer(MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    integer, pointer :: user(:), file(:)
    calls(13) = calls(13) + 1
    call c_f_pointer(userbuf, user, [position + count])
    call c_f_pointer(filebuf, file, [count])
    file = user(position + 1:) + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine integer_extent(datatype, extent, extra_state, ierror)
    type(MPI_Datatype) :: datatype
    integer(MPI_ADDRESS_KIND) :: extent, extra_state
    integer :: ierror
    extent = 4
    ierror = MPI_SUCCESS
  end subroutine
end module

program test
  use callbacks
  implicit none
  integer :: rank, ranks, faults, key, code, class, n, numbers(6), from(6), i
  integer(MPI_ADDRESS_KIND) :: value
  logical :: flag
  type(MPI_Comm) :: comm, copy
  type(MPI_Errhandler) :: handler
  type(MPI_Datatype) :: datatype, other
  type(MPI_Win) :: win
  type(MPI_File) :: file
  type(MPI_Session) :: session
  type(MPI_Request) :: request
  type(MPI_Status) :: status
  type(MPI_Op) :: op, op_of_many
  integer :: calls_of_op, factor
  faults = 0
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)

  ! Error handlers.
  call MPI_Comm_create_errhandler(comm_errors, handler)
  call MPI_Comm_set_errhandler(comm, handler)
  call MPI_Send(numbers, -1, MPI_INTEGER, 0, 0, comm, code)
  call MPI_Error_class(code, class)
  call check(calls(1) == 1 .and. last_comm == comm .and. class == MPI_ERR_COUNT .and. &
             last_code == code, 'an error handler of a communicator')
  ! The call fails and has no ierror.
  call MPI_Send(numbers, -1, MPI_INTEGER, 0, 0, comm)
  call check(calls(1) == 2, 'an error without ierror')
  call MPI_Errhandler_free(handler)
  call check(handler == MPI_ERRHANDLER_NULL, 'MPI_Errhandler_free')
  call MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER)
  call check(calls(1) == 3 .and. last_code == MPI_ERR_OTHER, 'MPI_Comm_call_errhandler')
  ! An internal procedure counts in a variable of its host.
  n = 0
  call MPI_Comm_create_errhandler(counts_here, handler)
  call MPI_Comm_set_errhandler(comm, handler)
  call MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER)
  call check(n == 1, 'an internal error handler')
  call MPI_Errhandler_free(handler)
  call MPI_Win_create(numbers, 24_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, comm, win)
  call MPI_Win_create_errhandler(win_errors, handler)
  call MPI_Win_set_errhandler(win, handler)
  call MPI_Win_call_errhandler(win, MPI_ERR_RMA_SYNC)
  call check(calls(2) == 1 .and. last_win == win .and. last_code == MPI_ERR_RMA_SYNC, &
             'an error handler of a window')
  call MPI_Errhandler_free(handler)
  call MPI_File_create_errhandler(file_errors, handler)
  call MPI_File_set_errhandler(MPI_FILE_NULL, handler)
  call MPI_File_open(comm, 'no/such/file', MPI_MODE_RDONLY, MPI_INFO_NULL, file, code)
  call check(calls(3) == 1 .and. last_file == MPI_FILE_NULL .and. code == last_code .and. &
             code /= MPI_SUCCESS, 'an error handler of files')
  call MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN)
  call MPI_Errhandler_free(handler)
  call MPI_Session_create_errhandler(session_errors, handler)
  call MPI_Session_init(MPI_INFO_NULL, handler, session)
  call MPI_Session_call_errhandler(session, MPI_ERR_OTHER)
  call check(calls(4) == 1 .and. last_session == session, 'an error handler of a session')
  call MPI_Session_finalize(session)
  call check(session == MPI_SESSION_NULL, 'MPI_Session_finalize')
  call MPI_Errhandler_free(handler)

  ! Attributes.
  call MPI_Comm_create_keyval(comm_copy, comm_delete, key, 1000_MPI_ADDRESS_KIND)
  call MPI_Comm_set_attr(comm, key, 12345678901_MPI_ADDRESS_KIND)
  call MPI_Comm_dup(comm, copy)
  call MPI_Comm_get_attr(copy, key, value, flag)
  call check(flag .and. value == 12345679901_MPI_ADDRESS_KIND .and. last_comm == comm, 'a copy')
  call MPI_Comm_free(copy)
  call check(calls(6) == 1 .and. last_state == 12345679901_MPI_ADDRESS_KIND, 'a deletion')
  call MPI_Comm_delete_attr(comm, key)
  call MPI_Comm_get_attr(comm, key, value, flag)
  call check(.not. flag .and. calls(6) == 2, 'MPI_Comm_delete_attr')
  call MPI_Comm_free_keyval(key)
  call check(key == MPI_KEYVAL_INVALID, 'MPI_Comm_free_keyval')
  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key, &
                              0_MPI_ADDRESS_KIND)
  call MPI_Comm_set_attr(comm, key, -7_MPI_ADDRESS_KIND)
  call MPI_Comm_dup(comm, copy)
  call MPI_Comm_get_attr(copy, key, value, flag)
  call check(flag .and. value == -7, 'MPI_COMM_DUP_FN')
  call MPI_Comm_free(copy)
  call MPI_Comm_free_keyval(key)
  call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, key, &
                              0_MPI_ADDRESS_KIND)
  call MPI_Comm_set_attr(comm, key, -7_MPI_ADDRESS_KIND)
  call MPI_Comm_dup(comm, copy)
  call MPI_Comm_get_attr(copy, key, value, flag)
  call check(.not. flag, 'MPI_COMM_NULL_COPY_FN')
  call MPI_Comm_free(copy)
  call MPI_Comm_free_keyval(key)
  call MPI_Comm_get_attr(comm, MPI_TAG_UB, value, flag)
  call check(flag .and. value >= 32767, 'MPI_TAG_UB')
  call MPI_Type_contiguous(2, MPI_INTEGER, datatype)
  call MPI_Type_create_keyval(type_copy, type_delete, key, 0_MPI_ADDRESS_KIND)
  call MPI_Type_set_attr(datatype, key, 5_MPI_ADDRESS_KIND)
  call MPI_Type_get_attr(datatype, key, value, flag)
  call check(flag .and. value == 5, 'MPI_Type_get_attr')
  call MPI_Type_dup(datatype, other)
  call MPI_Type_get_attr(other, key, value, flag)
  call check(.not. flag .and. calls(7) == 1, 'a type that is not copied')
  call MPI_Type_free(other)
  call MPI_Type_free(datatype)
  call check(calls(8) == 1, 'the deletion of the attribute of a type')
  call MPI_Type_free_keyval(key)
  call MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, key, 0_MPI_ADDRESS_KIND)
  call MPI_Type_free_keyval(key)
  call MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, key, &
                              0_MPI_ADDRESS_KIND)
  call MPI_Type_free_keyval(key)
  call MPI_Win_create_keyval(win_copy, win_delete, key, 77_MPI_ADDRESS_KIND)
  call MPI_Win_set_attr(win, key, 6_MPI_ADDRESS_KIND)
  call MPI_Win_get_attr(win, key, value, flag)
  call check(flag .and. value == 6, 'MPI_Win_get_attr')
  call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, flag)
  call check(flag .and. value == 24, 'MPI_WIN_SIZE')
  call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, flag)
  call check(flag .and. value == 4, 'MPI_WIN_DISP_UNIT')
  call MPI_Win_get_attr(win, MPI_WIN_BASE, value, flag)
  call check(flag .and. value == loc(numbers), 'MPI_WIN_BASE')
  call MPI_Win_free(win)
  call check(calls(9) == 1 .and. last_state == 77 .and. win == MPI_WIN_NULL, &
             'the deletion of the attribute of a window')
  call MPI_Win_free_keyval(key)
  call MPI_Win_create_keyval(MPI_WIN_DUP_FN, MPI_WIN_NULL_DELETE_FN, key, 0_MPI_ADDRESS_KIND)
  call MPI_Win_free_keyval(key)
  call MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, key, &
                             0_MPI_ADDRESS_KIND)
  call MPI_Win_free_keyval(key)

  ! Generalized requests.
  call MPI_Grequest_start(query, release, cancel, 9_MPI_ADDRESS_KIND, request)
  call MPI_Cancel(request)
  call check(calls(12) == 1, 'the cancel procedure before the end')
  call MPI_Grequest_complete(request)
  call MPI_Cancel(request)
  call check(calls(12) == 11, 'the cancel procedure after the end')
  call MPI_Wait(request, status)
  call MPI_Get_count(status, MPI_INTEGER, n)
  call check(calls(10) == 1 .and. calls(11) == 1 .and. status%MPI_SOURCE == 9 .and. &
             status%MPI_TAG == 3 .and. n == 4 .and. request == MPI_REQUEST_NULL, 'MPI_Wait')

  ! Operations.
  calls_of_op = 0
  factor = 3
  call MPI_Op_create(add_products, .true., op)
  call MPI_Op_create_c(add_many, .true., op_of_many)
  numbers = rank + 1
  from = 5
  call MPI_Reduce(numbers, from, 6, MPI_INTEGER, op, 0, comm)
  if (rank == 0) call check(all(from == merge(1, 7, ranks == 1)), 'an operation')
  from = 5
  call MPI_Allreduce(numbers(1:6:2), from(2:4), 3, MPI_INTEGER, op_of_many, comm)
  call check(all(from == [5, (ranks * (ranks + 1) / 2, i=1, 3), 5, 5]), &
             'an operation for large counts')
  call MPI_Reduce_local(numbers(::2), from(2::2), 3_MPI_COUNT_KIND, MPI_INTEGER, op)
  n = ranks * (ranks + 1) / 2
  call check(all(from == [5, rank + 1 + 3 * n, n, rank + 1 + 3 * n, 5, rank + 16]), &
             'MPI_Reduce_local')
  call check(calls_of_op >= 1 .and. calls_of_op < 50, 'operations have their datatype')
  call MPI_Op_commutative(op, flag)
  call check(flag, 'MPI_Op_commutative')
  call MPI_Op_free(op)
  call MPI_Op_free(op_of_many)
  call check(op == MPI_OP_NULL, 'MPI_Op_free')

  ! Data representations.
  call MPI_Register_datarep('negated', negate_back, negate, integer_extent, 1_MPI_ADDRESS_KIND)
  call MPI_Register_datarep_c('added  ', MPI_CONVERSION_FN_NULL_C, write_large, integer_extent, &
                              0_MPI_ADDRESS_KIND)
  call MPI_File_open(MPI_COMM_SELF, 'callbacks' // char(48 + rank), &
                     ior(MPI_MODE_CREATE, ior(MPI_MODE_RDWR, MPI_MODE_DELETE_ON_CLOSE)), &
                     MPI_INFO_NULL, file)
  call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'negated', &
                         MPI_INFO_NULL)
  numbers = [(i, i=1, 6)]
  call MPI_File_write_at(file, 0_MPI_OFFSET_KIND, numbers(6:1:-1), 6, MPI_INTEGER, status)
  from = 0
  call MPI_File_read_at(file, 0_MPI_OFFSET_KIND, from, 6, MPI_INTEGER, status)
  call check(all(from == numbers(6:1:-1)), 'a data representation')
  call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'native', &
                         MPI_INFO_NULL)
  call MPI_File_read_at(file, 0_MPI_OFFSET_KIND, from, 6, MPI_INTEGER, status)
  call check(all(from == -numbers(6:1:-1)), 'the data in the file')
  call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'added', &
                         MPI_INFO_NULL)
  call MPI_File_write_at(file, 0_MPI_OFFSET_KIND, numbers, 6, MPI_INTEGER, status)
  call MPI_File_read_at(file, 0_MPI_OFFSET_KIND, from, 6, MPI_INTEGER, status)
  call check(all(from == numbers + 1) .and. calls(13) > 0, 'MPI_CONVERSION_FN_NULL_C')
  call MPI_File_close(file)
  call check(file == MPI_FILE_NULL, 'MPI_File_close')

  call MPI_Comm_free(comm)
  call MPI_Allreduce(MPI_IN_PLACE, faults, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0 .and. faults == 0) print '(a)', 'ok'
  call MPI_Finalize()
contains
  subroutine counts_here(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code
    n = n + merge(1, 0, error_code == MPI_ERR_OTHER)
  end subroutine

  subroutine negate_back(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer :: count, ierror
    integer(MPI_OFFSET_KIND) :: position
    integer(MPI_ADDRESS_KIND) :: extra_state, reading
    reading = extra_state + 1
    call negate(userbuf, datatype, count, filebuf, position, reading, ierror)
  end subroutine

  subroutine add_products(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: x(:), y(:)
    call c_f_pointer(invec, x, [len])
    call c_f_pointer(inoutvec, y, [len])
    y = x + factor * y
    calls_of_op = calls_of_op + merge(1, 100, datatype == MPI_INTEGER)
  end subroutine

  subroutine add_many(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer(MPI_COUNT_KIND) :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: x(:), y(:)
    call c_f_pointer(invec, x, [len])
    call c_f_pointer(inoutvec, y, [len])
    y = x + y
    calls_of_op = calls_of_op + merge(1, 100, datatype == MPI_INTEGER)
  end subroutine

  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) then
      print '(a,i0,2a)', 'rank ', rank, ': wrong: ', what
      faults = faults + 1
    end if
  end subroutine
end program
