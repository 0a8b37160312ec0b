! ranks: 1 2
! A program starts workers, which are this program, and merges with them.
program spawn_workers
  use mpi_f08
  implicit none
  type(MPI_Comm) :: parent, workers, all_of
  integer :: me, np, n, total, codes(2)
  character(len=300) :: program_name
  call MPI_Init()
  call MPI_Comm_get_parent(parent)
  if (parent == MPI_COMM_NULL) then
    call get_command_argument(0, program_name)
    codes = -1
    call MPI_Comm_spawn(program_name, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &
                        workers, codes)
    call MPI_Comm_rank(MPI_COMM_WORLD, me)
    if (any(codes /= MPI_SUCCESS)) error stop 'the codes'
    call MPI_Comm_size(MPI_COMM_WORLD, np)
    call MPI_Intercomm_merge(workers, .false., all_of)
    call MPI_Comm_size(all_of, n)
    if (n /= np + 2) error stop 'the number of all'
  else
    if (command_argument_count() /= 0) error stop 'arguments'
    call MPI_Intercomm_merge(parent, .true., all_of)
  end if
  call MPI_Comm_size(all_of, n)
  call MPI_Comm_rank(all_of, me)
  call MPI_Allreduce(me, total, 1, MPI_INTEGER, MPI_SUM, all_of)
  if (total /= n * (n - 1) / 2) error stop 'the sum of all'
  call MPI_Comm_free(all_of)
  if (parent == MPI_COMM_NULL) then
    call MPI_Comm_disconnect(workers)
  else
    call MPI_Comm_disconnect(parent)
  end if
  call MPI_Finalize()
  if (parent == MPI_COMM_NULL .and. me == 0) print '(a)', 'ok'
end program
