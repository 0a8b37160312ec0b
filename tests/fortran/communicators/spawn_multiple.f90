! ranks: 1
! Two programs of different arguments are spawned together; rows of an array are their arguments.
program spawn_multiple
  use mpi
  implicit none
  integer :: ierr, parent, inter, rank, n, k, codes(3), faults
  character(len=300) :: me(2), argument
  character(len=8) :: arguments(2,3)
  faults = 0
  call MPI_Init(ierr)
  call MPI_Comm_get_parent(parent, ierr)
  if (parent == MPI_COMM_NULL) then
    call get_command_argument(0, me(1))
    me(2) = me(1)
    arguments(1,:) = [' one    ', '  two   ', '        ']
    arguments(2,:) = ['three   ', '        ', 'no      ']
    call MPI_Comm_spawn_multiple(2, me, arguments, [1, 2], [MPI_INFO_NULL, MPI_INFO_NULL], 0, &
                                 MPI_COMM_SELF, inter, codes, ierr)
    if (any(codes /= MPI_SUCCESS)) error stop 'the codes'
    do k = 0, 2
      call MPI_Recv(n, 1, MPI_INTEGER, k, 1, inter, MPI_STATUS_IGNORE, ierr)
      if (n /= 0) error stop 'the arguments'
    end do
  else
    inter = parent
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    n = command_argument_count()
    if (n /= merge(2, 1, rank == 0)) faults = 1
    call get_command_argument(1, argument)
    if (argument /= merge('one  ', 'three', rank == 0)) faults = faults + 10
    call get_command_argument(2, argument)
    if (argument /= merge('two', '   ', rank == 0)) faults = faults + 100
    call MPI_Send(faults, 1, MPI_INTEGER, 0, 1, inter, ierr)
  end if
  call MPI_Comm_disconnect(inter, ierr)
  call MPI_Finalize(ierr)
  if (parent == MPI_COMM_NULL) print '(a)', 'ok'
end program
