! ranks: 1 2 4
! A product of matrices, which does not commute: operands stay in the order of the ranks.
module matrices
  implicit none
contains
  subroutine multiply(invec, inoutvec, len, datatype)
    integer :: len, datatype, i
    double precision :: invec(2,2,len), inoutvec(2,2,len)
    do i = 1, len
      inoutvec(:,:,i) = matmul(invec(:,:,i), inoutvec(:,:,i))
    end do
    if (datatype < 0) error stop 'the type of the operation'
  end subroutine
end module

program user_op_matrix
  use mpi
  use matrices
  implicit none
  integer :: ierr, me, np, op, matrix, i
  double precision, dimension(2,2,2) :: mine, all_of, up_to, expected
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  call MPI_Type_contiguous(4, MPI_DOUBLE_PRECISION, matrix, ierr)
  call MPI_Type_commit(matrix, ierr)
  call MPI_Op_create(multiply, .false., op, ierr)
  mine = of_rank(me)
  call MPI_Allreduce(mine, all_of, 2, matrix, op, MPI_COMM_WORLD, ierr)
  call MPI_Scan(mine, up_to, 2, matrix, op, MPI_COMM_WORLD, ierr)
  expected = of_rank(0)
  if (me == 0 .and. any(up_to /= expected)) error stop 'the first product'
  do i = 1, np - 1
    call multiply_from_right(of_rank(i))
    if (me == i .and. any(up_to /= expected)) error stop 'the products up to this rank'
  end do
  if (any(all_of /= expected)) error stop 'the whole product'
  call MPI_Op_free(op, ierr)
  call MPI_Type_free(matrix, ierr)
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
contains
  function of_rank(rank) result(m)
    integer, intent(in) :: rank
    double precision :: m(2,2,2)
    m(:,:,1) = reshape([1, rank, 2, 1], [2, 2])
    m(:,:,2) = reshape([0, 1, 1, rank + 1], [2, 2])
  end function
  subroutine multiply_from_right(m)
    double precision, intent(in) :: m(2,2,2)
    expected(:,:,1) = matmul(expected(:,:,1), m(:,:,1))
    expected(:,:,2) = matmul(expected(:,:,2), m(:,:,2))
  end subroutine
end program
