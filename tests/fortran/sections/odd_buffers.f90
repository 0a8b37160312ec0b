! ranks: 2
! Buffers of unusual kinds: expressions, results of functions, components of polymorphic and
! parameterized types, associate names, coarrays of one image, pointers with new bounds.
module things
  use mpi_f08
  implicit none
  type :: base
    integer :: id = 0
    real(8) :: x(3) = 0
  end type
  type, extends(base) :: child
    integer :: more(4) = 0
  end type
  type :: holder
    class(base), allocatable :: item
    real, pointer :: field(:,:) => null()
    character(len=:), allocatable :: text
    integer, allocatable :: list(:)
  end type
  integer, parameter :: table(5) = [1, 2, 3, 4, 5]
contains
  function squares(n) result(s)
    integer, intent(in) :: n
    integer :: s(n), i
    s = [(i * i, i=1, n)]
  end function
  function view(h) result(p)
    type(holder), intent(in) :: h
    real, pointer :: p(:)
    p => h%field(:, 2)
  end function
  subroutine optional_buffer(n, x)
    integer, intent(out) :: n
    integer, intent(in), optional :: x(:)
    n = 0
    if (present(x)) call MPI_Reduce_local(x, n, 1, MPI_INTEGER, MPI_SUM)
  end subroutine
  subroutine lower_bounds(a, me)
    integer, intent(in) :: me
    integer, intent(inout) :: a(-3:, 0:)
    call MPI_Sendrecv_replace(a(-3::2, ubound(a,2):lbound(a,2):-1), 4, MPI_INTEGER, 1 - me, 1, &
                              1 - me, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  end subroutine
  subroutine assumed_size(a, me)
    integer, intent(in) :: me
    integer, intent(inout) :: a(2, *)
    call MPI_Sendrecv_replace(a, 8, MPI_INTEGER, 1 - me, 1, 1 - me, 1, MPI_COMM_WORLD, &
                              MPI_STATUS_IGNORE)
    call MPI_Sendrecv_replace(a(1, 4:1:-1), 4, MPI_INTEGER, 1 - me, 1, 1 - me, 1, &
                              MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  end subroutine
  subroutine contiguous_dummy(a, me)
    integer, intent(in) :: me
    integer, intent(inout), contiguous :: a(:)
    call MPI_Sendrecv_replace(a, size(a), MPI_INTEGER, 1 - me, 1, 1 - me, 1, MPI_COMM_WORLD, &
                              MPI_STATUS_IGNORE)
  end subroutine
  subroutine value_dummy(v, me, got)
    integer, value :: v
    integer, intent(in) :: me
    integer, intent(out) :: got
    call MPI_Sendrecv(v, 1, MPI_INTEGER, 1 - me, 1, got, 1, MPI_INTEGER, 1 - me, 1, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  end subroutine
end module

program odd
  use things
  implicit none
  integer :: me, you, i, n, got(5), a(4, 4), b(2, 4)
  type(holder) :: h
  real, target :: storage(4, 3)
  real(8) :: x(3)
  complex :: z(4)
  real :: parts(4)
  character(len=3) :: words(4), other(4)
  character(len=:), allocatable :: text
  logical(1) :: l1(4), k1(4)
  logical(8) :: l8(4)
  integer(2) :: shorts(6)
  real(10) :: long(2), longs(4)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  you = 1 - me

  call MPI_Sendrecv(squares(5), 5, MPI_INTEGER, you, 1, got, 5, MPI_INTEGER, you, 1, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(all(got == [1, 4, 9, 16, 25]), 'the result of a function')
  call MPI_Sendrecv(table(5:1:-2), 3, MPI_INTEGER, you, 1, got(::2), 3, MPI_INTEGER, you, 1, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(all(got == [5, 4, 3, 16, 1]), 'a named constant')
  call MPI_Sendrecv(table + me, 5, MPI_INTEGER, you, 1, got, 5, MPI_INTEGER, you, 1, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(all(got == table + you), 'an expression')
  call MPI_Sendrecv([7, me], 2, MPI_INTEGER, you, 1, got(5:4:-1), 2, MPI_INTEGER, you, 1, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(got(5) == 7 .and. got(4) == you, 'a constructor')
  call MPI_Sendrecv(42, 1, MPI_INTEGER, you, 1, got(1), 1, MPI_INTEGER, you, 1, MPI_COMM_WORLD, &
                    MPI_STATUS_IGNORE)
  call check(got(1) == 42, 'a literal')
  call value_dummy(100 + me, me, got(2))
  call check(got(2) == 100 + you, 'VALUE')

  h%field => storage(4:1:-1, ::2)
  storage = reshape([(real(100 * me + i), i=1, 12)], [4, 3])
  call MPI_Sendrecv_replace(h%field(:, 2), 4, MPI_REAL, you, 1, you, 1, MPI_COMM_WORLD, &
                            MPI_STATUS_IGNORE)
  call check(all(nint(storage(:, 3)) == [(100 * you + i, i=9, 12)]), 'a pointer component')
  storage(:, 3) = [(real(100 * me + i), i=9, 12)]
  block
    real, pointer :: p(:)
    p => view(h)
    p(11:) => p(::2)
    call MPI_Sendrecv_replace(p, 2, MPI_REAL, you, 1, you, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  end block
  call check(nint(storage(4, 3)) == 100 * you + 12 .and. nint(storage(3, 3)) == 100 * me + 11 &
             .and. nint(storage(2, 3)) == 100 * you + 10, 'a pointer with new bounds')
  associate (row => storage(2, :))
    call MPI_Allreduce(MPI_IN_PLACE, row, 3, MPI_REAL, MPI_MAX, MPI_COMM_WORLD)
  end associate
  call check(nint(storage(2, 1)) == 102 .and. nint(storage(3, 1)) == 100 * me + 3, 'associate')

  allocate (child :: h%item)
  h%item%x = me
  call MPI_Sendrecv_replace(h%item%x(3:1:-2), 2, MPI_DOUBLE_PRECISION, you, 1, you, 1, &
                            MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(all(nint(h%item%x) == [you, me, you]), 'a polymorphic component')
  select type (c => h%item)
  type is (child)
    c%more = [(10 * me + i, i=1, 4)]
    call MPI_Sendrecv_replace(c%more(4:2:-1), 3, MPI_INTEGER, you, 1, you, 1, MPI_COMM_WORLD, &
                              MPI_STATUS_IGNORE)
    call check(all(c%more == [10 * me + 1, (10 * you + i, i=2, 4)]), 'SELECT TYPE')
  end select

  h%text = 'rank ' // achar(48 + me)
  text = repeat('-', len(h%text))
  call MPI_Sendrecv(h%text, len(h%text), MPI_CHARACTER, you, 1, text, len(text), MPI_CHARACTER, &
                    you, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(text == 'rank ' // achar(48 + you), 'deferred length')
  words = [character(len=3) :: 'abc', 'def', 'ghi', 'jkl']
  other = '---'
  call MPI_Sendrecv(words(4:1:-2), 6, MPI_CHARACTER, you, 1, other(1:3:2), 6, MPI_CHARACTER, you, &
                    1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(all(other == ['jkl', '---', 'def', '---']), 'CHARACTERs')
  other = '---'
  call MPI_Sendrecv(words(:)(2:3), 8, MPI_CHARACTER, you, 1, other(:)(1:2), 8, MPI_CHARACTER, you, &
                    1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(all(other == ['bc-', 'ef-', 'hi-', 'kl-']), 'substrings')

  z = cmplx([1, 2, 3, 4], me)
  call MPI_Sendrecv(z%im, 4, MPI_REAL, you, 1, parts(4:1:-1), 4, MPI_REAL, you, 1, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(all(nint(parts) == you), 'parts of COMPLEX')
  l1 = [.true., .false., .true., .true.]
  k1 = .false.
  call MPI_Sendrecv(l1(4:1:-1), 4, MPI_LOGICAL1, you, 1, k1, 4, MPI_LOGICAL1, you, 1, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(logical(all(k1 .eqv. l1(4:1:-1))), 'LOGICAL(1)')
  call MPI_Allreduce(MPI_IN_PLACE, k1(::2), 2, MPI_LOGICAL1, MPI_LAND, MPI_COMM_WORLD)
  call check(logical(all(k1 .eqv. l1(4:1:-1))), 'MPI_LAND of LOGICAL(1)')
  l8 = [me == 0, .true., me == 1, .false.]
  call MPI_Allreduce(MPI_IN_PLACE, l8(1:4:2), 2, MPI_LOGICAL8, MPI_LOR, MPI_COMM_WORLD)
  call check(all(logical(l8) .eqv. [.true., .true., .true., .false.]), 'MPI_LOR of LOGICAL(8)')
  shorts = int([1, 2, 3, 4, 5, 6] + me, 2)
  call MPI_Allreduce(MPI_IN_PLACE, shorts(6:1:-3), 2, MPI_INTEGER2, MPI_SUM, MPI_COMM_WORLD)
  call check(shorts(6) == 13 .and. shorts(3) == 7 .and. shorts(1) == 1 + me, 'INTEGER(2)')
  longs = [1, 2, 3, 4]
  long = 0
  call MPI_Sendrecv(longs(4:1:-2), 2 * 16, MPI_BYTE, you, 1, long, 2 * 16, MPI_BYTE, you, 1, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(all(long == [4, 2]), 'REAL(10) as bytes')

  a = reshape([(100 * me + i, i=1, 16)], [4, 4])
  call lower_bounds(a(:, 1:2), me)
  call check(all(a(::2, 1:2) == reshape([(100 * you + i, i=1, 7, 2)], [2, 2])) .and. &
             a(2, 1) == 100 * me + 2, 'lower bounds')
  b = reshape([(100 * me + i, i=1, 8)], [2, 4])
  call assumed_size(b, me)
  call check(all(b(2, :) == [(100 * you + i, i=2, 8, 2)]) .and. &
             all(b(1, :) == [(100 * me + i, i=1, 7, 2)]), 'assumed size')
  a = reshape([(100 * me + i, i=1, 16)], [4, 4])
  call contiguous_dummy(a(2, :), me)
  call check(all(a(2, :) == [(100 * you + i, i=2, 14, 4)]), 'CONTIGUOUS')
  call optional_buffer(n)
  call check(n == 0, 'an absent argument')
  call optional_buffer(n, [5])
  call check(n == 5, 'a present argument')
  allocate (h%list(0))
  call MPI_Allreduce(h%list, got, 0, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Bcast(h%list, 0, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
contains
  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) then
      print '(a,i0,2a)', 'rank ', me, ': wrong: ', what
      error stop 'wrong'
    end if
  end subroutine
end program
