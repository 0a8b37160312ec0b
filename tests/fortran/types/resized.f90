! ranks: 2
! One component of an array of a derived type, by a resized type and as a section.
program resized
  use mpi_f08
  implicit none
  type cell
    sequence
    real(kind(1d0)) :: density
    integer :: kind_of, neighbours
  end type
  type(cell), target :: cells(8), got(8)
  type(MPI_Datatype) :: column
  integer(MPI_ADDRESS_KIND) :: first, next
  integer :: me, i
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Get_address(cells(1)%neighbours, first)
  call MPI_Get_address(cells(2)%neighbours, next)
  call MPI_Type_create_resized(MPI_INTEGER, 0_MPI_ADDRESS_KIND, next - first, column)
  call MPI_Type_commit(column)
  do i = 1, 8
    cells(i) = cell(i * 0.5d0, 100 * me + i, 10 * i)
    got(i) = cell(-1d0, -1, -1)
  end do
  call MPI_Sendrecv(cells(1)%neighbours, 8, column, 1 - me, 1, got(1)%neighbours, 8, column, &
                    1 - me, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  if (any(got%neighbours /= [(10 * i, i=1, 8)])) error stop 'by the type'
  if (any(got%density /= -1) .or. any(got%kind_of /= -1)) error stop 'the other components'
  call MPI_Sendrecv(cells%kind_of, 8, MPI_INTEGER, 1 - me, 2, got%kind_of, 8, MPI_INTEGER, &
                    1 - me, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  if (any(got%kind_of /= [(100 * (1 - me) + i, i=1, 8)])) error stop 'as a section'
  if (any(got%density /= -1)) error stop 'the densities'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
