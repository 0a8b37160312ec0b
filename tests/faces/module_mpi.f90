! ranks: 2
! What module mpi of other MPIs takes from their libraries: keys of attributes, MPI_SIZEOF, special
! arguments.
program module_mpi
  use mpi
  implicit none
  integer :: faults = 0, ierr, bytes, whole(3), status(MPI_STATUS_SIZE), rank, at
  integer :: unaligned(MPI_STATUS_SIZE + 1)
  integer(MPI_ADDRESS_KIND) :: value
  double precision :: real_value
  logical :: flag
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Sizeof(whole, bytes, ierr)
  call check(bytes == 4, 'MPI_SIZEOF of an array')
  call MPI_Sizeof(real_value, bytes, ierr)
  call check(bytes == 8, 'MPI_SIZEOF of a scalar')
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierr)
  call check(flag .and. value >= 32767, 'MPI_TAG_UB')
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, value, flag, ierr)
  call check(flag .and. value >= 2, 'MPI_UNIVERSE_SIZE')
  whole = rank
  call MPI_Sendrecv_replace(whole, 3, MPI_INTEGER, 1 - rank, 3, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &
      status, ierr)
  call check(all(whole == 1 - rank), 'a message')
  call check(status(MPI_SOURCE) == 1 - rank .and. status(MPI_TAG) == 3, 'a status')
  call MPI_Get_count(status, MPI_INTEGER, bytes, ierr)
  call check(bytes == 3, 'the count of a status')
  ! A status may begin at every INTEGER.
  do at = 1, 2
    call MPI_Recv(whole, 3, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &
        unaligned(at:at + MPI_STATUS_SIZE - 1), ierr)
    call check(unaligned(at + MPI_SOURCE - 1) == MPI_PROC_NULL, 'a status that is not aligned')
  end do
  call MPI_Send(whole, 3, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, ierr)
  call MPI_Recv(whole, 3, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  call MPI_Allreduce(MPI_IN_PLACE, faults, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call MPI_Finalize(ierr)
  if (faults > 0) error stop 'wrong'
  if (rank == 0) print '(a)', 'ok'
contains
  subroutine check(is_right, what)
    logical :: is_right
    character(len=*) :: what
    if (is_right) return
    faults = faults + 1
    print '(a,i0,2a)', 'rank ', rank, ': wrong: ', what
  end subroutine
end program
