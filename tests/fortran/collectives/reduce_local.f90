! ranks: 1
! A reduction without communication, for each type of number.
program reduce_local
  use mpi_f08
  implicit none
  integer :: i(3)
  real :: r(2)
  complex(kind(1d0)) :: z(2)
  logical :: l(2)
  integer(1) :: bytes(3)
  call MPI_Init()
  i = [1, 5, 9]
  call MPI_Reduce_local([4, 4, 4], i, 3, MPI_INTEGER, MPI_MAX)
  if (any(i /= [4, 5, 9])) error stop 'the larger ones'
  r = [1.5, 2.5]
  call MPI_Reduce_local([2., 4.], r, 2, MPI_REAL, MPI_PROD)
  if (any(r /= [3., 10.])) error stop 'the products'
  z = [(1d0, 1d0), (2d0, 0d0)]
  call MPI_Reduce_local([(0d0, 1d0), (1d0, 1d0)], z, 2, MPI_DOUBLE_COMPLEX, MPI_PROD)
  if (any(z /= [(-1d0, 1d0), (2d0, 2d0)])) error stop 'the complex products'
  l = [.true., .false.]
  call MPI_Reduce_local([.false., .false.], l, 2, MPI_LOGICAL, MPI_LOR)
  if (.not. l(1) .or. l(2)) error stop 'or'
  bytes = [1_1, 2_1, 4_1]
  call MPI_Reduce_local([3_1, 3_1, 3_1], bytes, 3, MPI_INTEGER1, MPI_BXOR)
  if (any(bytes /= [2_1, 1_1, 7_1])) error stop 'the bits'
  ! Every second number only.
  i = [1, 1, 1]
  call MPI_Reduce_local([10, 10], i(1:3:2), 2, MPI_INTEGER, MPI_SUM)
  if (any(i /= [11, 1, 11])) error stop 'a section'
  call MPI_Finalize()
  print '(a)', 'ok'
end program
