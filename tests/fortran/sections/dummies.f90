! ranks: 1 2
! Dummy arguments of all kinds pass their sections on: assumed shape, contiguous, optional,
! assumed size, value of another bound.
module exchanges
  use mpi_f08
  implicit none
contains
  subroutine assumed_shape(a)
    integer, intent(inout) :: a(0:)
    call MPI_Bcast(a, size(a), MPI_INTEGER, 0, MPI_COMM_WORLD)
  end subroutine
  subroutine contiguous_dummy(a)
    integer, intent(inout), contiguous :: a(:)
    call MPI_Bcast(a, size(a), MPI_INTEGER, 0, MPI_COMM_WORLD)
  end subroutine
  subroutine assumed_size(a, n)
    integer, intent(in) :: n
    integer, intent(inout) :: a(*)
    call MPI_Bcast(a, n, MPI_INTEGER, 0, MPI_COMM_WORLD)
  end subroutine
  subroutine explicit_shape(a, n, m)
    integer, intent(in) :: n, m
    integer, intent(inout) :: a(n, m)
    call MPI_Bcast(a(1,:), m, MPI_INTEGER, 0, MPI_COMM_WORLD)
  end subroutine
  subroutine maybe(a, status)
    integer, intent(inout), optional :: a(:)
    type(MPI_Status), optional :: status
    if (present(a)) call MPI_Bcast(a(::2), (size(a) + 1) / 2, MPI_INTEGER, 0, MPI_COMM_WORLD)
    if (present(status)) status%MPI_TAG = -77
  end subroutine
end module

program dummies
  use exchanges
  implicit none
  integer :: me, i, a(12), whole(12)
  type(MPI_Status) :: status
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  whole = [(i, i=1, 12)]
  call reset()
  call assumed_shape(a(2:12:5))
  call expect([2, 7, 12])
  call contiguous_dummy(a(1:9:4))
  call expect([1, 5, 9])
  call assumed_size(a(3:11:2), 4)
  call expect([3, 5, 7, 9])
  call explicit_shape(a, 4, 3)
  call expect([1, 5, 9])
  call maybe(a(10:1:-3))
  call expect([10, 4])
  call maybe(status=status)
  if (status%MPI_TAG /= -77) error stop 'the status'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
contains
  subroutine reset()
    a = merge(whole, -whole, me == 0)
  end subroutine
  ! Only these places have come from the first process.
  subroutine expect(places)
    integer, intent(in) :: places(:)
    integer :: expected(12)
    expected = merge(whole, -whole, me == 0)
    expected(places) = whole(places)
    if (any(a /= expected)) error stop 'the places that have changed'
    call reset()
  end subroutine
end program
