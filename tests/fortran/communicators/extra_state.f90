! ranks: 1
! The extra state of a generalized request belongs to the request: its procedures see what the
! others have changed, and so does the program's variable.
module requests
  use mpi
  implicit none
  integer :: order(6) = 0, calls = 0
contains
  subroutine note(what, extra)
    integer, intent(in) :: what
    integer(MPI_ADDRESS_KIND), intent(in) :: extra
    calls = calls + 1
    order(calls) = what * 1000 + int(extra)
  end subroutine
  subroutine query(extra, status, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    integer :: status(MPI_STATUS_SIZE), ierror
    call note(1, extra)
    extra = extra + 10
    call MPI_Status_set_elements(status, MPI_BYTE, 0, ierror)
    call MPI_Status_set_cancelled(status, .false., ierror)
    status(MPI_SOURCE) = MPI_UNDEFINED
    status(MPI_TAG) = MPI_UNDEFINED
  end subroutine
  subroutine release(extra, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    integer :: ierror
    call note(2, extra)
    extra = extra + 100
    ierror = MPI_SUCCESS
  end subroutine
  subroutine cancel(extra, complete, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    logical :: complete
    integer :: ierror
    call note(3, extra)
    extra = extra + 1
    ierror = MPI_SUCCESS
    if (complete) ierror = MPI_ERR_REQUEST
  end subroutine
end module

program extra_state
  use requests
  implicit none
  integer :: ierr, request, other
  integer(MPI_ADDRESS_KIND), volatile :: state
  call MPI_Init(ierr)
  state = 5
  call MPI_Grequest_start(query, release, cancel, state, request, ierr)
  call MPI_Cancel(request, ierr)
  if (state /= 6) error stop 'the variable behind cancel'
  call MPI_Grequest_complete(request, ierr)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  if (any(order(:3) /= [3005, 1006, 2016])) error stop 'what the procedures see'
  if (state /= 116) error stop 'the variable'
  ! Two requests, and a variable that serves something else by now.
  calls = 0
  call start(other)
  state = 7
  call MPI_Grequest_start(query, release, cancel, state, request, ierr)
  state = -3
  call MPI_Grequest_complete(other, ierr)
  call MPI_Grequest_complete(request, ierr)
  call MPI_Wait(other, MPI_STATUS_IGNORE, ierr)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  if (any(order(:4) /= [1040, 2050, 1007, 2017])) error stop 'values at the start'
  if (state /= -3) error stop 'a variable that has another value'
  ! A constant stays what it is.
  calls = 0
  call MPI_Grequest_start(query, release, cancel, 70_MPI_ADDRESS_KIND, request, ierr)
  call MPI_Grequest_complete(request, ierr)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  if (any(order(:2) /= [1070, 2080])) error stop 'the state of a request with a constant'
  call MPI_Finalize(ierr)
  print '(a)', 'ok'
contains
  subroutine start(made)
    integer, intent(out) :: made
    integer(MPI_ADDRESS_KIND), save :: value = 40
    call MPI_Grequest_start(query, release, cancel, value, made, ierr)
  end subroutine
end program
