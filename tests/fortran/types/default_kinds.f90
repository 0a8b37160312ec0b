! ranks: 1
! options: -fdefault-real-8 -fno-default-real-8 | --default-real-8 | -fdefault-real-8 -O2
! not for flang: the first options are those of GNU Fortran
! The datatypes have the default kinds, however the options that change them are spelled.
program default_kinds
  use mpi_f08
  implicit none
  integer :: bytes
  real :: x(4), y(4)
  complex :: z
  call MPI_Init()
  call MPI_Type_size(MPI_REAL, bytes)
  if (8 * bytes /= storage_size(x)) error stop 'MPI_REAL'
  call MPI_Type_size(MPI_COMPLEX, bytes)
  if (8 * bytes /= storage_size(z)) error stop 'MPI_COMPLEX'
  call MPI_Type_size(MPI_DOUBLE_PRECISION, bytes)
  if (8 * bytes /= storage_size(1.0d0)) error stop 'MPI_DOUBLE_PRECISION'
  x = 1.0 / [1, 2, 3, 4]
  y = 0
  call MPI_Allreduce(x(4:1:-1), y, 4, MPI_REAL, MPI_SUM, MPI_COMM_SELF)
  if (any(y /= x(4:1:-1))) error stop 'data'
  call MPI_Finalize()
  print '(a)', 'ok'
end program
