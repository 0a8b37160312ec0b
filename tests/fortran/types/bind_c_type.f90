! ranks: 2
! An interoperable type: its layout is that of C, with the gaps of C.
program bind_c_type
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  type, bind(c) :: record
    integer(c_int8_t) :: tag
    real(c_double) :: value
    integer(c_short) :: short
    complex(c_float) :: z
  end type
  type(record), target :: mine(3), got(3)
  type(MPI_Datatype) :: raw, of_record
  integer(MPI_ADDRESS_KIND) :: places(4), lb, extent
  integer :: me, i
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Get_address(mine(1)%tag, places(1))
  call MPI_Get_address(mine(1)%value, places(2))
  call MPI_Get_address(mine(1)%short, places(3))
  call MPI_Get_address(mine(1)%z, places(4))
  do i = 4, 1, -1
    places(i) = MPI_Aint_diff(places(i), places(1))
  end do
  if (any(places /= [0, 8, 16, 20])) error stop 'the places'
  call MPI_Type_create_struct(4, [1, 1, 1, 1], places, &
                              [MPI_INT8_T, MPI_DOUBLE_PRECISION, MPI_SHORT, MPI_COMPLEX], raw)
  call MPI_Type_create_resized(raw, 0_MPI_ADDRESS_KIND, int(c_sizeof(mine(1)), MPI_ADDRESS_KIND), &
                               of_record)
  call MPI_Type_commit(of_record)
  call MPI_Type_get_extent(of_record, lb, extent)
  if (lb /= 0 .or. extent /= 32) error stop 'the extent'
  do i = 1, 3
    mine(i) = record(int(i, c_int8_t), i + 0.5d0, int(-i, c_short), cmplx(i, me))
    got(i) = record(0_c_int8_t, 0d0, 0_c_short, (0., 0.))
  end do
  call MPI_Sendrecv(mine, 3, of_record, 1 - me, 1, got, 3, of_record, 1 - me, 1, MPI_COMM_WORLD, &
                    MPI_STATUS_IGNORE)
  do i = 1, 3
    if (got(i)%tag /= i .or. got(i)%value /= i + 0.5d0) error stop 'tag and value'
    if (got(i)%short /= -i .or. got(i)%z /= cmplx(i, 1 - me)) error stop 'short and complex'
  end do
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
