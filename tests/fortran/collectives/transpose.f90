! ranks: 1 2 4
! A matrix is transposed: its columns are dealt among the processes.
program transposed
  use mpi
  implicit none
  integer, parameter :: b = 3
  integer :: ierr, me, np, i, j, k
  double precision, allocatable :: own(:,:), blocks(:,:,:), got(:,:,:), result(:,:)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  allocate (own(b*np, b), blocks(b, b, np), got(b, b, np), result(b*np, b))
  own = reshape([((value(i, me * b + j), i=1, b*np), j=1, b)], [b*np, b])
  do k = 1, np
    blocks(:,:,k) = transpose(own((k-1)*b+1:k*b, :))
  end do
  call MPI_Alltoall(blocks, b*b, MPI_DOUBLE_PRECISION, got, b*b, MPI_DOUBLE_PRECISION, &
                    MPI_COMM_WORLD, ierr)
  do k = 1, np
    result((k-1)*b+1:k*b, :) = got(:,:,k)
  end do
  do j = 1, b
    do i = 1, b * np
      if (result(i, j) /= value(me * b + j, i)) error stop 'the transposed matrix'
    end do
  end do
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
contains
  pure double precision function value(row, column)
    integer, intent(in) :: row, column
    value = 100 * row + column + 0.5d0
  end function
end program
