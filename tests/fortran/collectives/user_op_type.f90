! ranks: 1 2 4
! An operation of the program on a derived type: the box around boxes.
module boxes
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  type, bind(c) :: box
    real(c_double) :: low(2), high(2)
    integer(c_int) :: members
  end type
contains
  subroutine around(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    type(box), pointer :: one(:), other(:)
    integer :: i
    if (datatype == MPI_DATATYPE_NULL) error stop 'the type of the operation'
    call c_f_pointer(invec, one, [len])
    call c_f_pointer(inoutvec, other, [len])
    do i = 1, len
      other(i)%low = min(one(i)%low, other(i)%low)
      other(i)%high = max(one(i)%high, other(i)%high)
      other(i)%members = one(i)%members + other(i)%members
    end do
  end subroutine
end module

program user_op_type
  use boxes
  implicit none
  integer :: me, np
  type(box), target :: mine(2), all_of(2)
  type(MPI_Datatype) :: raw, of_box
  type(MPI_Op) :: op
  integer(MPI_ADDRESS_KIND) :: places(4), extent
  logical :: commutes
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  call MPI_Get_address(mine(1)%low, places(1))
  call MPI_Get_address(mine(1)%high, places(2))
  call MPI_Get_address(mine(1)%members, places(3))
  call MPI_Get_address(mine(2)%low, places(4))
  extent = MPI_Aint_diff(places(4), places(1))
  places = places - places(1)
  call MPI_Type_create_struct(3, [2, 2, 1], places(1:3), &
                              [MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, MPI_INTEGER], raw)
  call MPI_Type_create_resized(raw, 0_MPI_ADDRESS_KIND, extent, of_box)
  call MPI_Type_commit(of_box)
  call MPI_Op_create(around, .true., op)
  call MPI_Op_commutative(op, commutes)
  if (.not. commutes) error stop 'commutative'
  mine(1) = box([0d0, dble(me)], [1d0, 1d0 + me], 1)
  mine(2) = box([-dble(me), 5d0], [dble(me), 6d0], 2)
  call MPI_Allreduce(mine, all_of, 2, of_box, op, MPI_COMM_WORLD)
  if (any(all_of(1)%low /= 0) .or. any(all_of(1)%high /= [1, np])) error stop 'the first box'
  if (any(all_of(2)%low /= [1 - np, 5]) .or. any(all_of(2)%high /= [np - 1, 6])) &
    error stop 'the second box'
  if (any(all_of%members /= [np, 2 * np])) error stop 'the members'
  call MPI_Op_free(op)
  if (op /= MPI_OP_NULL) error stop 'the handle of a freed operation'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
