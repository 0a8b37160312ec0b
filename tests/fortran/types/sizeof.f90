! ranks: 1
! MPI_Sizeof of scalars and arrays, and the types that match.
program sizes
  use mpi_f08
  implicit none
  integer :: n, bytes
  type(MPI_Datatype) :: match
  real :: r
  double precision :: d(3,3)
  complex(kind(1d0)) :: z
  integer(selected_int_kind(2)) :: small
  integer(selected_int_kind(18)) :: large(2)
  logical :: l
  character(len=5) :: text
  call MPI_Init()
  call MPI_Sizeof(r, n)
  if (n /= storage_size(r) / 8) error stop 'real'
  call MPI_Type_match_size(MPI_TYPECLASS_REAL, n, match)
  if (match /= MPI_REAL4 .and. match /= MPI_REAL) error stop 'the type of real'
  call MPI_Sizeof(d, n)
  if (n /= 8) error stop 'double precision'
  call MPI_Type_match_size(MPI_TYPECLASS_REAL, n, match)
  call MPI_Type_size(match, bytes)
  if (bytes /= 8) error stop 'the type of double precision'
  call MPI_Sizeof(z, n)
  if (n /= 16) error stop 'complex'
  call MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, n, match)
  call MPI_Type_size(match, bytes)
  if (bytes /= 16) error stop 'the type of complex'
  call MPI_Sizeof(small, n)
  if (n /= 1) error stop 'a small integer'
  call MPI_Sizeof(large, n)
  if (n /= 8) error stop 'a large integer'
  call MPI_Type_match_size(MPI_TYPECLASS_INTEGER, n, match)
  if (match /= MPI_INTEGER8) error stop 'the type of a large integer'
  call MPI_Sizeof(l, n)
  if (n /= storage_size(l) / 8) error stop 'logical'
  call MPI_Sizeof(text, n)
  if (n /= 5) error stop 'character'
  call MPI_Finalize()
  print '(a)', 'ok'
end program
