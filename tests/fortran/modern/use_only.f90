! ranks: 1 2
! USE with ONLY and with other names for what it takes.
module transport
  use mpi_f08, only: world => MPI_COMM_WORLD, integers => MPI_INTEGER, handle => MPI_Comm, &
                     sum_up => MPI_SUM, MPI_Allreduce, total_rank => MPI_Comm_rank, &
                     operator(==), ignore => MPI_STATUS_IGNORE, exchange => MPI_Sendrecv
  implicit none
  private
  public :: sum_of_all, world, handle, operator(==), rank_in, around
contains
  integer function sum_of_all(value, comm)
    integer, intent(in) :: value
    type(handle), intent(in) :: comm
    call MPI_Allreduce(value, sum_of_all, 1, integers, sum_up, comm)
  end function
  integer function rank_in(comm)
    type(handle), intent(in) :: comm
    call total_rank(comm, rank_in)
  end function
  integer function around(value)
    integer, intent(in) :: value
    call exchange(value, 1, integers, rank_in(world), 3, around, 1, integers, rank_in(world), 3, &
                  world, ignore)
  end function
end module

program use_only
  use transport
  use mpi, only: MPI_Init, MPI_Finalize, MPI_Comm_size, old_world => MPI_COMM_WORLD
  implicit none
  integer :: ierror, n
  type(handle) :: comm
  call MPI_Init(ierror)
  call MPI_Comm_size(old_world, n, ierror)
  comm = world
  if (.not. comm == world .or. comm%MPI_VAL /= old_world) error stop 'the handle'
  if (sum_of_all(rank_in(comm) + 1, comm) /= n * (n + 1) / 2) error stop 'the sum'
  if (around(rank_in(world) + 5) /= rank_in(world) + 5) error stop 'the message'
  n = rank_in(world)
  call MPI_Finalize(ierror)
  if (n == 0) print '(a)', 'ok'
end program
