! ranks: 1 2 4
! A reduction of sections by an operation of the program, which gets elements without gaps.
module keep_longest
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
contains
  subroutine longest(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    real(c_double), pointer :: one(:,:), other(:,:)
    integer :: k
    if (datatype == MPI_DOUBLE_PRECISION) error stop 'the type of the operation'
    call c_f_pointer(invec, one, [2, len])
    call c_f_pointer(inoutvec, other, [2, len])
    do k = 1, len
      if (sum(one(:,k)**2) > sum(other(:,k)**2)) other(:,k) = one(:,k)
    end do
  end subroutine
end module

program user_operation
  use keep_longest
  implicit none
  integer :: me, np, k
  double precision :: vectors(2,6), best(2,3)
  type(MPI_Datatype) :: of_vector
  type(MPI_Op) :: op
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  call MPI_Type_contiguous(2, MPI_DOUBLE_PRECISION, of_vector)
  call MPI_Type_commit(of_vector)
  call MPI_Op_create(longest, .true., op)
  vectors = 1000
  do k = 1, 3
    vectors(:,2*k) = [dble(mod(me + k, np)), -1d0]
  end do
  call MPI_Allreduce(vectors(:,2:6:2), best, 3, of_vector, op, MPI_COMM_WORLD)
  if (any(best(1,:) /= np - 1) .or. any(best(2,:) /= -1)) error stop 'the longest ones'
  call MPI_Allreduce(MPI_IN_PLACE, vectors(:,6:2:-2), 3, of_vector, op, MPI_COMM_WORLD)
  if (any(vectors(1,2:6:2) /= np - 1) .or. any(vectors(:,1:5:2) /= 1000)) error stop 'in place'
  call MPI_Op_free(op)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
