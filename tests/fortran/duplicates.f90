! ranks: 2
! Communicators that are stored when a request completes, by each kind of completion.

program duplicates
  use mpi
  implicit none
  integer :: ierr, how, request, requests(2), indx, comm, related, rank, faults, done, list(2)
  logical :: flag
  faults = 0
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  do how = 1, 6
    comm = -how
    request = MPI_REQUEST_NULL
    if (mod(how, 2) == 0) then
      call MPI_Comm_idup(MPI_COMM_WORLD, comm, request, ierr)
    else
      call MPI_Comm_idup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, comm, request, ierr)
    end if
    call uses_the_stack(64)
    requests = [MPI_REQUEST_NULL, request]
    select case (how)
    case (1)
      call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    case (2)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
    case (3)
      call MPI_Waitany(2, requests, indx, MPI_STATUS_IGNORE, ierr)
    case (4)
      call MPI_Waitsome(2, requests, done, list, MPI_STATUSES_IGNORE, ierr)
    case (5)
      flag = .false.
      do while (.not. flag)
        call MPI_Test(request, flag, MPI_STATUS_IGNORE, ierr)
      end do
    case (6)
      flag = .false.
      do while (.not. flag)
        call MPI_Request_get_status(request, flag, MPI_STATUS_IGNORE, ierr)
      end do
      call MPI_Comm_compare(MPI_COMM_WORLD, comm, related, ierr)
      if (related /= MPI_CONGRUENT) faults = faults + 1
      call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    end select
    call MPI_Comm_compare(MPI_COMM_WORLD, comm, related, ierr)
    if (related /= MPI_CONGRUENT) faults = faults + 1
    call MPI_Barrier(comm, ierr)
    call MPI_Comm_free(comm, ierr)
  end do
  call MPI_Allreduce(MPI_IN_PLACE, faults, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call MPI_Finalize(ierr)
  if (faults > 0) error stop 1
  print '(a)', 'ok'
contains
  recursive subroutine uses_the_stack(depth)
    integer, intent(in) :: depth
    integer :: filled(16)
    filled = depth
    if (depth > 0) call uses_the_stack(depth - 1)
    if (any(filled /= depth)) faults = faults + 1
  end subroutine uses_the_stack
end program duplicates
