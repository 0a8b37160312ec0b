! ranks: 1
! How a type was made, as a program can ask.
program contents
  use mpi
  implicit none
  integer :: ierr, made, ni, na, nt, combiner, integers(10), types(4)
  integer(MPI_ADDRESS_KIND) :: addresses(4)
  call MPI_Init(ierr)
  call MPI_Type_get_envelope(MPI_REAL, ni, na, nt, combiner, ierr)
  if (combiner /= MPI_COMBINER_NAMED) error stop 'a named type'
  call MPI_Type_create_struct(2, [3, 1], [0_MPI_ADDRESS_KIND, 40_MPI_ADDRESS_KIND], &
                              [MPI_DOUBLE_PRECISION, MPI_LOGICAL], made, ierr)
  call MPI_Type_get_envelope(made, ni, na, nt, combiner, ierr)
  if (combiner /= MPI_COMBINER_STRUCT .or. any([ni, na, nt] /= [3, 2, 2])) error stop 'a structure'
  call MPI_Type_get_contents(made, ni, na, nt, integers, addresses, types, ierr)
  if (any(integers(:3) /= [2, 3, 1]) .or. any(addresses(:2) /= [0, 40])) error stop 'its numbers'
  if (any(types(:2) /= [MPI_DOUBLE_PRECISION, MPI_LOGICAL])) error stop 'its types'
  call MPI_Type_free(made, ierr)
  call MPI_Type_create_f90_real(6, MPI_UNDEFINED, made, ierr)
  call MPI_Type_get_envelope(made, ni, na, nt, combiner, ierr)
  if (combiner /= MPI_COMBINER_F90_REAL .or. ni /= 2) error stop 'a type by precision'
  call MPI_Type_get_contents(made, ni, na, nt, integers, addresses, types, ierr)
  if (integers(1) /= 6 .or. integers(2) /= MPI_UNDEFINED) error stop 'the precision'
  call MPI_Type_vector(2, 3, 4, MPI_INTEGER, made, ierr)
  call MPI_Type_get_envelope(made, ni, na, nt, combiner, ierr)
  if (combiner /= MPI_COMBINER_VECTOR .or. any([ni, na, nt] /= [3, 0, 1])) error stop 'a vector'
  call MPI_Type_get_contents(made, ni, na, nt, integers, addresses, types, ierr)
  if (any(integers(:3) /= [2, 3, 4]) .or. types(1) /= MPI_INTEGER) error stop 'of the vector'
  call MPI_Finalize(ierr)
  print '(a)', 'ok'
end program
