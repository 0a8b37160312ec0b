! ranks: 1 2
! The real and imaginary parts of complex arrays, as sections of reals.
program complex_parts
  use mpi_f08
  implicit none
  integer :: me, np, i
  complex :: z(5), expected(5)
  real :: total(5)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  z = [(cmplx(i, me), i=1, 5)]
  call MPI_Allreduce(z%im, total, 5, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
  if (any(total /= np * (np - 1) / 2)) error stop 'the imaginary parts'
  call MPI_Bcast(z(1:5:2)%im, 3, MPI_REAL, np - 1, MPI_COMM_WORLD)
  expected = [(cmplx(i, me), i=1, 5)]
  expected(1::2) = [(cmplx(i, np - 1), i=1, 5, 2)]
  if (any(z /= expected)) error stop 'every second part'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
