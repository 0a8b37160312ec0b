! ranks: 1 2 4
! Sums and products of complex numbers of both kinds.
program complex_sum
  use mpi_f08
  implicit none
  integer :: me, np, i
  complex :: c(3), c_sum(3)
  complex(kind(1d0)) :: z, product_of_all, expected
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  c = [(cmplx(me, i), i=1, 3)]
  call MPI_Allreduce(c, c_sum, 3, MPI_COMPLEX, MPI_SUM, MPI_COMM_WORLD)
  if (any(c_sum /= [(cmplx(np * (np - 1) / 2, i * np), i=1, 3)])) error stop 'the sums'
  z = cmplx(1, me + 1, kind(1d0))
  call MPI_Reduce(z, product_of_all, 1, MPI_DOUBLE_COMPLEX, MPI_PROD, 0, MPI_COMM_WORLD)
  expected = (1d0, 0d0)
  do i = 1, np
    expected = expected * cmplx(1, i, kind(1d0))
  end do
  if (me == 0 .and. product_of_all /= expected) error stop 'the product'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
