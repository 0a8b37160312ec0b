! ranks: 1 2 4
! Procedures of the program: operations, error handlers, attributes, generalized requests and data
! representations. Each gets INTEGER handles, by address.
module functions
  use mpi
  implicit none
  integer :: sums = 0, handled = 0, last_code = 0, last_handle = 0, copies = 0, deletes = 0
  integer :: queries = 0, frees = 0, cancels = 0
contains
  ! Not commutative: the operand of the lower rank is the first one.
  subroutine compose(invec, inoutvec, length, datatype)
    integer :: length, datatype, i
    integer :: invec(2, length), inoutvec(2, length)
    if (datatype /= MPI_2INTEGER) stop 'the datatype of the operation'
    do i = 1, length
      inoutvec(:, i) = [invec(1, i) * inoutvec(1, i), invec(2, i) * inoutvec(1, i) + inoutvec(2, i)]
    end do
    sums = sums + 1
  end subroutine

  subroutine handle(object, code)
    integer :: object, code
    handled = handled + 1
    last_handle = object
    last_code = code
  end subroutine

  subroutine copy(comm, key, extra, from, to, flag, ierr)
    integer :: comm, key, ierr
    integer(MPI_ADDRESS_KIND) :: extra, from, to
    logical :: flag
    if (extra /= 1234567890123_MPI_ADDRESS_KIND) stop 'the extra state of a copy'
    copies = copies + 1
    to = from + 1
    flag = .true.
    ierr = MPI_SUCCESS
  end subroutine

  subroutine delete(comm, key, value, extra, ierr)
    integer :: comm, key, ierr
    integer(MPI_ADDRESS_KIND) :: extra, value
    if (extra /= 1234567890123_MPI_ADDRESS_KIND) stop 'the extra state of a deletion'
    deletes = deletes + 1
    ierr = merge(MPI_SUCCESS, MPI_ERR_OTHER, value < 1000)
  end subroutine

  subroutine query(extra, status, ierr)
    integer(MPI_ADDRESS_KIND) :: extra
    integer :: status(MPI_STATUS_SIZE), ierr
    queries = queries + 1
    call MPI_Status_set_elements(status, MPI_INTEGER, int(extra), ierr)
    call MPI_Status_set_cancelled(status, .false., ierr)
    status(MPI_SOURCE) = 5
    status(MPI_TAG) = 6
    extra = extra + 1
    ierr = MPI_SUCCESS
  end subroutine

  subroutine release(extra, ierr)
    integer(MPI_ADDRESS_KIND) :: extra
    integer :: ierr
    if (extra /= 8) stop 'the extra state of a request'
    frees = frees + 1
    ierr = MPI_SUCCESS
  end subroutine

  subroutine cancel(extra, complete, ierr)
    integer(MPI_ADDRESS_KIND) :: extra
    logical :: complete
    integer :: ierr
    if (complete) stop 'the request is not complete'
    cancels = cancels + 1
    ierr = MPI_SUCCESS
  end subroutine

  subroutine same_extent(datatype, extent, extra, ierr)
    integer :: datatype, ierr
    integer(MPI_ADDRESS_KIND) :: extent, extra, lower
    call MPI_Type_get_extent(datatype, lower, extent, ierr)
  end subroutine
end module

program callbacks
  use functions
  implicit none
  integer :: ierr, rank, ranks, faults, op, mine(2), expected(2), i, request, comm, key
  ! GNU Fortran 14 keeps a variable without the attribute in a register until MPI_Wait returns.
  integer, asynchronous :: all(2)
  integer :: errhandler, status(MPI_STATUS_SIZE), n, class, win, file, old
  integer(MPI_ADDRESS_KIND) :: value
  logical :: flag
  faults = 0
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)

  call MPI_Op_create(compose, .false., op, ierr)
  call MPI_Op_commutative(op, flag, ierr)
  call check(.not. flag, 'MPI_Op_commutative')
  expected = [1, 0]
  do i = 0, ranks - 1
    expected = [expected(1) * (i + 2), expected(2) * (i + 2) + i]
  end do
  mine = [rank + 2, rank]
  call MPI_Allreduce(mine, all, 1, MPI_2INTEGER, op, MPI_COMM_WORLD, ierr)
  call check(all(1) == expected(1) .and. all(2) == expected(2), 'a reduction')
  ! The operation is free before the reduction is complete.
  all = 0
  call MPI_Iallreduce(mine, all, 1, MPI_2INTEGER, op, MPI_COMM_WORLD, request, ierr)
  call MPI_Op_free(op, ierr)
  call check(op == MPI_OP_NULL, 'MPI_Op_free')
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  call check(all(1) == expected(1) .and. all(2) == expected(2), 'a nonblocking reduction')
  call MPI_Reduce_local(mine, all, 0, MPI_INTEGER, MPI_SUM, ierr)
  call check(sums > 0 .or. ranks == 1, 'calls of the operation')

  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_create_errhandler(handle, errhandler, ierr)
  call MPI_Comm_set_errhandler(comm, errhandler, ierr)
  call MPI_Errhandler_free(errhandler, ierr)
  call check(errhandler == MPI_ERRHANDLER_NULL, 'MPI_Errhandler_free')
  call MPI_Send(mine, -1, MPI_INTEGER, 0, 0, comm, ierr)
  call MPI_Error_class(ierr, class, n)
  call check(handled == 1 .and. last_code == ierr .and. last_handle == comm .and. &
             class == MPI_ERR_COUNT, 'an error handler of a communicator')
  call MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER, ierr)
  call check(handled == 2 .and. last_code == MPI_ERR_OTHER, 'MPI_Comm_call_errhandler')
  call MPI_Win_create_errhandler(handle, errhandler, ierr)
  call MPI_Win_create(mine, 8_MPI_ADDRESS_KIND, 1, MPI_INFO_NULL, comm, win, ierr)
  call MPI_Win_set_errhandler(win, errhandler, ierr)
  call MPI_Win_call_errhandler(win, MPI_ERR_RANK, ierr)
  call check(handled == 3 .and. last_handle == win, 'an error handler of a window')
  call MPI_Win_free(win, ierr)
  call MPI_Errhandler_free(errhandler, ierr)
  call MPI_File_create_errhandler(handle, errhandler, ierr)
  call MPI_File_get_errhandler(MPI_FILE_NULL, old, ierr)
  call MPI_File_set_errhandler(MPI_FILE_NULL, errhandler, ierr)
  call MPI_File_open(MPI_COMM_SELF, '/nowhere/oxmpi', MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierr)
  call check(ierr /= MPI_SUCCESS .and. handled == 4, 'an error handler of files')
  call MPI_File_set_errhandler(MPI_FILE_NULL, old, ierr)
  call MPI_Errhandler_free(errhandler, ierr)

  call MPI_Comm_create_keyval(copy, delete, key, 1234567890123_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_set_attr(comm, key, 41_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_dup(comm, n, ierr)
  call MPI_Comm_get_attr(n, key, value, flag, ierr)
  call check(flag .and. value == 42 .and. copies == 1, 'an attribute of a duplicate')
  call MPI_Comm_free(n, ierr)
  call check(deletes == 1, 'the deletion of an attribute')
  call MPI_Comm_set_attr(comm, key, 5000_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_delete_attr(comm, key, ierr)
  call check(ierr /= MPI_SUCCESS .and. deletes == 3, 'a deletion that fails')
  call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN, ierr)
  call MPI_Comm_set_attr(comm, key, -3_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_get_attr(comm, key, value, flag, ierr)
  call check(.not. flag .or. value == 5000, 'an attribute that cannot be replaced')
  call MPI_Comm_free_keyval(key, ierr)
  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key, &
                              0_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_set_attr(MPI_COMM_WORLD, key, -3_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, n, ierr)
  call MPI_Comm_get_attr(n, key, value, flag, ierr)
  call check(flag .and. value == -3, 'MPI_COMM_DUP_FN')
  call MPI_Comm_free(n, ierr)
  call MPI_Comm_delete_attr(MPI_COMM_WORLD, key, ierr)
  call MPI_Comm_free_keyval(key, ierr)

  call MPI_Grequest_start(query, release, cancel, 7_MPI_ADDRESS_KIND, request, ierr)
  call MPI_Cancel(request, ierr)
  call check(cancels == 1, 'the cancellation of a generalized request')
  call MPI_Grequest_complete(request, ierr)
  call MPI_Wait(request, status, ierr)
  call MPI_Get_count(status, MPI_INTEGER, n, ierr)
  call check(n == 7 .and. status(MPI_SOURCE) == 5 .and. status(MPI_TAG) == 6, &
             'the status of a generalized request')
  call check(queries == 1 .and. frees == 1 .and. request == MPI_REQUEST_NULL, 'its functions')

  call MPI_Register_datarep('oxmpi-same', MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, &
                            same_extent, 0_MPI_ADDRESS_KIND, ierr)
  call check(ierr == MPI_SUCCESS, 'MPI_Register_datarep')

  if (rank == 0 .and. faults == 0) print '(a)', 'ok'
  call MPI_Finalize(ierr)
contains
  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) then
      print '(a,i0,2a)', 'rank ', rank, ': wrong: ', what
      faults = faults + 1
    end if
  end subroutine
end program
