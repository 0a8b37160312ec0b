! ranks: 1 2
! Pointers to sections are passed with their gaps.
program pointers
  use mpi_f08
  implicit none
  integer, target :: matrix(6,6)
  integer, pointer :: diagonal_block(:,:), odd(:)
  integer, pointer, contiguous :: column(:)
  integer :: me, np, i, j
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  matrix = reshape([((10 * i + j, i=1, 6), j=1, 6)], [6, 6]) * merge(1, -1, me == 0)
  diagonal_block => matrix(2:3, 2:3)
  odd => matrix(5, 1::2)
  column => matrix(:, 6)
  call MPI_Bcast(diagonal_block, 4, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call MPI_Bcast(odd, 3, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call MPI_Bcast(column, 6, MPI_INTEGER, 0, MPI_COMM_WORLD)
  do j = 1, 6
    do i = 1, 6
      if (abs(matrix(i,j)) /= 10 * i + j) error stop 'a number'
      if ((matrix(i,j) > 0) .neqv. (me == 0 .or. j == 6 .or. &
          (i == 5 .and. mod(j, 2) == 1) .or. (any(i == [2, 3]) .and. any(j == [2, 3])))) &
        error stop 'a sign'
    end do
  end do
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
