! ranks: 1 2 4
! Collectives with blocks in sections: rows of a matrix, gathered and scattered.
program gathered_rows
  use mpi_f08
  implicit none
  integer :: me, np, i, j
  integer, allocatable :: matrix(:,:), own(:), columns(:,:)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  allocate (matrix(3, 2*np), own(4), columns(np, 2*np))
  matrix = -1
  own = [10 * me + 1, -5, 10 * me + 2, -5]
  ! Row 2 gets two numbers of each process.
  call MPI_Gather(own(1:3:2), 2, MPI_INTEGER, matrix(2,:), 2, MPI_INTEGER, 0, MPI_COMM_WORLD)
  if (me == 0) then
    if (any(matrix(2,:) /= [((10 * i + j, j=1, 2), i=0, np-1)])) error stop 'the row'
    if (any(matrix(1:3:2,:) /= -1)) error stop 'the other rows'
  else if (any(matrix /= -1)) then
    error stop 'another process'
  end if
  call MPI_Scatter(matrix(2,2*np:1:-1), 2, MPI_INTEGER, own(2:4:2), 2, MPI_INTEGER, 0, &
                   MPI_COMM_WORLD)
  i = np - 1 - me
  if (any(own(2:4:2) /= [10 * i + 2, 10 * i + 1])) error stop 'the scattered numbers'
  call MPI_Allgatherv(own(1:3:2), 2, MPI_INTEGER, columns(1,:), [(2, i=1, np)], &
                      [(2 * (np - i), i=1, np)], MPI_INTEGER, MPI_COMM_WORLD)
  if (any(columns(1,:) /= [((10 * i + j, j=1, 2), i=np-1, 0, -1)])) error stop 'in reverse'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
