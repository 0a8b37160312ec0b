! ranks: 1 2
! not for flang: version 19 has no procedures of the program with arguments of any rank
! A procedure for arrays of every type and rank.
module for_all
  use mpi_f08
  implicit none
contains
  subroutine from_first(buffer, count, datatype)
    type(*), dimension(..), intent(inout) :: buffer
    integer, intent(in) :: count
    type(MPI_Datatype), intent(in) :: datatype
    call MPI_Bcast(buffer, count, datatype, 0, MPI_COMM_WORLD)
  end subroutine
end module

program assumed_rank
  use for_all
  implicit none
  integer :: me, scalar, cube(3,3,3)
  real :: line(8)
  complex :: z(2,2)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  scalar = me
  cube = me
  line = me
  z = me
  call from_first(scalar, 1, MPI_INTEGER)
  call from_first(cube(::2,2,::2), 4, MPI_INTEGER)
  call from_first(line(8:1:-7), 2, MPI_REAL)
  call from_first(z(2,:), 2, MPI_COMPLEX)
  if (scalar /= 0) error stop 'a scalar'
  if (any(cube(::2,2,::2) /= 0) .or. sum(cube) /= me * 23) error stop 'a cube'
  if (line(1) /= 0 .or. line(8) /= 0 .or. any(line(2:7) /= me)) error stop 'a line'
  if (any(z(2,:) /= 0) .or. any(z(1,:) /= me)) error stop 'a complex matrix'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
