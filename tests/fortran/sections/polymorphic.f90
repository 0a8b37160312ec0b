! ranks: 1 2
! CLASS(*) and a type with extensions, in SELECT TYPE.
program polymorphic
  use mpi_f08
  implicit none
  type base
    integer :: id
  end type
  type, extends(base) :: child
    real :: weights(4)
  end type
  class(base), allocatable :: object
  integer :: me, np, numbers(6), i
  real :: reals(3)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  numbers = me
  reals = me
  call from_last(numbers(::2))
  call from_last(reals)
  if (any(numbers(::2) /= np - 1) .or. any(numbers(2::2) /= me)) error stop 'integers'
  if (any(reals /= np - 1)) error stop 'reals'
  allocate (child :: object)
  object%id = 100 * me
  select type (object)
  type is (child)
    object%weights = [(me + i * 0.25, i=1, 4)]
    call MPI_Bcast(object%weights(2:4:2), 2, MPI_REAL, np - 1, MPI_COMM_WORLD)
    if (any(object%weights /= [me + 0.25, np - 0.5, me + 0.75, real(np)])) error stop 'the weights'
  end select
  call MPI_Bcast(object%id, 1, MPI_INTEGER, np - 1, MPI_COMM_WORLD)
  if (object%id /= 100 * (np - 1)) error stop 'the number'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
contains
  subroutine from_last(a)
    class(*), intent(inout) :: a(:)
    select type (a)
    type is (integer)
      call MPI_Bcast(a, size(a), MPI_INTEGER, np - 1, MPI_COMM_WORLD)
    type is (real)
      call MPI_Bcast(a, size(a), MPI_REAL, np - 1, MPI_COMM_WORLD)
    end select
  end subroutine
end program
