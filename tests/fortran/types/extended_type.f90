! ranks: 2
! A type that extends another one: components of both, and one of an allocatable array.
program extended_type
  use mpi_f08
  implicit none
  type shape
    integer :: id
    real :: colour(3)
  end type
  type, extends(shape) :: polygon
    real(kind(1d0)), allocatable :: corners(:,:)
    logical :: closed
  end type
  type(polygon), target :: p
  type(MPI_Datatype) :: parts
  integer(MPI_ADDRESS_KIND) :: places(4)
  integer :: me, i, n
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  n = 7
  allocate (p%corners(2, n))
  if (me == 0) then
    p%id = 12
    p%colour = [0.25, 0.5, 0.75]
    p%corners = reshape([(i * 1.5d0, i=1, 2 * n)], [2, n])
    p%closed = .true.
  else
    p%id = 0
    p%colour = 0
    p%corners = 0
    p%closed = .false.
  end if
  ! Absolute addresses, because the array stands somewhere else.
  call MPI_Get_address(p%id, places(1))
  call MPI_Get_address(p%colour, places(2))
  call MPI_Get_address(p%corners, places(3))
  call MPI_Get_address(p%closed, places(4))
  call MPI_Type_create_struct(4, [1, 3, 2 * n, 1], places, &
                              [MPI_INTEGER, MPI_REAL, MPI_DOUBLE_PRECISION, MPI_LOGICAL], parts)
  call MPI_Type_commit(parts)
  call MPI_F_sync_reg(p%corners)
  call MPI_Bcast(MPI_BOTTOM, 1, parts, 0, MPI_COMM_WORLD)
  call MPI_F_sync_reg(p%corners)
  call check(p)
  call MPI_Type_free(parts)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
contains
  subroutine check(p)
    type(polygon), intent(in) :: p
    if (p%id /= 12 .or. any(p%colour /= [0.25, 0.5, 0.75])) error stop 'the shape'
    if (any(p%corners /= reshape([(i * 1.5d0, i=1, 2 * n)], [2, n]))) error stop 'the corners'
    if (.not. p%closed) error stop 'closed'
  end subroutine
end program
