! Random array sections, for programs that include this file. A call is made twice: with contiguous
! copies of two random sections, and with the sections. Then every byte of the arrays behind the
! sections must be as if the contiguous results had been stored in the sections.
! The procedures in between have BIND(C), because GNU Fortran copies components and substrings that
! it passes to other procedures of Fortran.
module sections
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none

  ! Elements of the arrays whose components are sections.
  type, bind(c) :: record
    integer(c_int) :: number, other
    real(c_double) :: part
    character(c_char) :: letter
  end type

  ! A section, the array that it lies in, and a datatype for it.
  type :: section
    integer :: form, rank
    integer, dimension(15) :: whole, first, last, step, extent
    ! The place in the pool of each byte of the section.
    integer, allocatable :: place(:)
    integer(1), allocatable :: flat(:)
    integer(1), pointer, contiguous :: pool(:), before(:)
    ! A datatype of `data` basic elements with the extent of `span`, and the number of it in a block.
    type(MPI_Datatype) :: datatype
    integer :: data, span, count
  end type

  abstract interface
    subroutine call_with_buffers(a, b) bind(c)
      type(*), dimension(..), asynchronous :: a, b
    end subroutine
  end interface

  integer, parameter :: OWN = 1, SHARED = 2
  ! The kinds of basic elements.
  integer, parameter :: INTEGERS = 1, LETTERS = 2, DOUBLES = 3, BYTES = 4, COMPLEXES = 5
  integer, parameter :: POOL_BYTES = 66000
  ! The pools. C_F_POINTER of GNU Fortran 12 does not set the distance between CHARACTERs.
  character(len=5), target :: texts(POOL_BYTES / 5, 2)
  integer(8) :: seeds(2)
  type(section), target :: a_, b_
  integer :: kind_of_data, faults = 0, rank, ranks, basic_bytes
  integer :: comm_size
  type(MPI_Datatype) :: basic, pair_type, gap_type, same_type
  procedure(call_with_buffers), pointer :: current
  logical :: with_sections
  ! What a call has changed besides its buffers.
  integer(1) :: side(4000), side_before(4000)
  integer :: changes

contains

  subroutine start_sections()
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    seeds = [88172645463325252_8 + rank, 1181783497276652981_8]
    call c_f_pointer(c_loc(texts(1, 1)), a_%pool, [POOL_BYTES])
    call c_f_pointer(c_loc(texts(1, 2)), b_%pool, [POOL_BYTES])
    allocate(a_%before(POOL_BYTES), b_%before(POOL_BYTES))
  end subroutine

  subroutine end_sections()
    integer :: all_faults
    call MPI_Allreduce(faults, all_faults, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (rank == 0 .and. all_faults == 0) print '(a)', 'ok'
    call MPI_Finalize()
  end subroutine

  ! 1 to `most`: different on each rank, or the same on all of them.
  integer function pick(most, stream)
    integer, intent(in) :: most, stream
    integer(8) :: x
    x = seeds(stream)
    x = ieor(x, ishft(x, 13))
    x = ieor(x, ishft(x, -7))
    x = ieor(x, ishft(x, 17))
    seeds(stream) = x
    pick = 1 + int(modulo(ishft(x, -11), int(most, 8)))
  end function

  subroutine fill(to)
    integer(1), intent(out) :: to(:)
    integer :: i, value
    value = pick(1000000, OWN)
    do i = 1, size(to)
      value = iand(value * 1103515 + 12345, 1073741823)
      to(i) = int(ishft(value, -17) - 4096 * (ishft(value, -17) / 4096) - 128, 1)
      if (kind_of_data == LETTERS) to(i) = int(32 + iand(int(to(i)), 63), 1)
    end do
  end subroutine

  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) then
      faults = faults + 1
      if (faults < 20) print '(a,i0,2a)', 'rank ', rank, ': wrong: ', what
    end if
  end subroutine

  ! Chooses the kind of data for two sections, and makes datatypes for it.
  subroutine choose_data(of)
    integer, intent(in), optional :: of
    type(MPI_Datatype) :: vector
    kind_of_data = pick(5, SHARED)
    if (pick(3, SHARED) == 1) kind_of_data = INTEGERS
    if (present(of)) kind_of_data = of
    select case (kind_of_data)
    case (INTEGERS); basic = MPI_INTEGER; basic_bytes = 4
    case (LETTERS); basic = MPI_CHARACTER; basic_bytes = 1
    case (DOUBLES); basic = MPI_DOUBLE_PRECISION; basic_bytes = 8
    case (BYTES); basic = MPI_BYTE; basic_bytes = 1
    case (COMPLEXES); basic = MPI_COMPLEX; basic_bytes = 8
    end select
    call MPI_Type_contiguous(2, basic, pair_type)
    call MPI_Type_vector(2, 1, 2, basic, vector)
    call MPI_Type_create_resized(vector, 0_MPI_ADDRESS_KIND, &
                                 int(4 * basic_bytes, MPI_ADDRESS_KIND), gap_type)
    call MPI_Type_dup(basic, same_type)
    call MPI_Type_free(vector)
    call MPI_Type_commit(pair_type)
    call MPI_Type_commit(gap_type)
    call MPI_Type_commit(same_type)
  end subroutine

  subroutine free_data()
    call MPI_Type_free(pair_type)
    call MPI_Type_free(gap_type)
    call MPI_Type_free(same_type)
  end subroutine

  ! Draws a section. Every second one has a multiple of `blocks` in its last dimension.
  subroutine draw(s, blocks)
    type(section), intent(inout) :: s
    integer, intent(in) :: blocks
    integer, parameter :: ranks_of_integers(6) = [1, 2, 3, 4, 7, 15], most(15) = &
      [300, 20, 9, 6, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2]
    integer :: i, attempt, elements, at(15), element, unit, offset, n, distance
    logical :: accepts_few
    accepts_few = pick(12, OWN) == 1
    do attempt = 1, 50
      select case (kind_of_data)
      case (INTEGERS); s%form = 1; s%rank = ranks_of_integers(pick(6, OWN))
      case (LETTERS); s%form = 1 + pick(3, OWN); s%rank = pick(2, OWN)
      case (DOUBLES); s%form = 4 + pick(2, OWN); s%rank = pick(2, OWN)
      case (BYTES); s%form = pick(7, OWN); s%rank = pick(2, OWN)
      case (COMPLEXES); s%form = 7; s%rank = pick(2, OWN)
      end select
      n = 1
      do i = 1, s%rank
        s%whole(i) = pick(most(s%rank), OWN)
        if (n * s%whole(i) > 2000) s%whole(i) = 1
        n = n * s%whole(i)
        s%step(i) = pick(3, OWN)
        s%extent(i) = pick(1 + (s%whole(i) - 1) / s%step(i), OWN)
        if (pick(4, OWN) == 1) then
          s%step(i) = 1
          s%extent(i) = s%whole(i)
        end if
        if (i == s%rank .and. s%extent(i) > blocks .and. pick(2, OWN) == 1) &
          s%extent(i) = s%extent(i) / blocks * blocks
        if (accepts_few .and. pick(5, OWN) == 1) s%extent(i) = 0
        s%first(i) = pick(s%whole(i) - max(s%extent(i) - 1, 0) * s%step(i), OWN)
        s%last(i) = s%first(i) + (s%extent(i) - 1) * s%step(i)
        if (pick(3, OWN) == 1) then
          offset = s%first(i)
          s%first(i) = s%last(i)
          s%last(i) = offset
          s%step(i) = -s%step(i)
        end if
      end do
      elements = product(s%extent(:s%rank))
      if (elements >= 4 * blocks .or. accepts_few) exit
    end do
    ! The distance of elements in an array without gaps, and the bytes of an element that count.
    distance = merge(5, 4, s%form == 2)
    unit = 4
    offset = 0
    select case (s%form)
    case (2); unit = 5
    case (3); distance = 24; unit = 1; offset = 16
    case (4); distance = 1; unit = 1
    case (5); distance = 24; unit = 8; offset = 8
    case (6); distance = 16; unit = 8; offset = 8
    case (7); distance = 8; unit = 8
    end select
    if (allocated(s%place)) deallocate(s%place)
    allocate(s%place(elements * unit))
    at = 0
    do element = 0, elements - 1
      n = 0
      do i = s%rank, 1, -1
        n = n * s%whole(i) + s%first(i) - 1 + at(i) * s%step(i)
      end do
      s%place(element * unit + 1:element * unit + unit) = [(n * distance + offset + i, i=1, unit)]
      do i = 1, s%rank
        at(i) = at(i) + 1
        if (at(i) < s%extent(i)) exit
        at(i) = 0
      end do
    end do
  end subroutine

  ! Passes the first or the second section to a procedure, with another argument.
  recursive subroutine pass(which, to, other) bind(c, name='')
    integer(c_int), value :: which
    procedure(call_with_buffers) :: to
    type(*), dimension(..), asynchronous :: other
    integer, pointer :: p1(:), p2(:,:), p3(:,:,:), p4(:,:,:,:), p7(:,:,:,:,:,:,:)
    integer, pointer :: p15(:,:,:,:,:,:,:,:,:,:,:,:,:,:,:)
    character(len=5), pointer :: c1(:), c2(:,:)
    type(record), pointer :: r1(:), r2(:,:)
    integer(1), pointer :: b1(:), b2(:,:)
    complex(8), pointer :: z1(:), z2(:,:)
    real(8), pointer :: d1(:), d2(:,:)
    complex(4), pointer :: y1(:), y2(:,:)
    integer, pointer :: f(:), l(:), t(:)
    type(section), pointer :: s
    type(c_ptr) :: at
    if (which == 1) s => a_
    if (which == 2) s => b_
    at = c_loc(s%pool(1))
    f => s%first
    l => s%last
    t => s%step
    select case (s%form * 100 + s%rank)
    case (101)
      call c_f_pointer(at, p1, s%whole(:1))
      call to(p1(f(1):l(1):t(1)), other)
    case (102)
      call c_f_pointer(at, p2, s%whole(:2))
      call to(p2(f(1):l(1):t(1), f(2):l(2):t(2)), other)
    case (103)
      call c_f_pointer(at, p3, s%whole(:3))
      call to(p3(f(1):l(1):t(1), f(2):l(2):t(2), f(3):l(3):t(3)), other)
    case (104)
      call c_f_pointer(at, p4, s%whole(:4))
      call to(p4(f(1):l(1):t(1), f(2):l(2):t(2), f(3):l(3):t(3), f(4):l(4):t(4)), other)
    case (107)
      call c_f_pointer(at, p7, s%whole(:7))
      call to(p7(f(1):l(1):t(1), f(2):l(2):t(2), f(3):l(3):t(3), f(4):l(4):t(4), &
                 f(5):l(5):t(5), f(6):l(6):t(6), f(7):l(7):t(7)), other)
    case (115)
      call c_f_pointer(at, p15, s%whole(:15))
      call to(p15(f(1):l(1):t(1), f(2):l(2):t(2), f(3):l(3):t(3), f(4):l(4):t(4), &
                  f(5):l(5):t(5), f(6):l(6):t(6), f(7):l(7):t(7), f(8):l(8):t(8), &
                  f(9):l(9):t(9), f(10):l(10):t(10), f(11):l(11):t(11), f(12):l(12):t(12), &
                  f(13):l(13):t(13), f(14):l(14):t(14), f(15):l(15):t(15)), other)
    case (201)
      c1 => texts(:s%whole(1), which)
      call to(c1(f(1):l(1):t(1)), other)
    case (202)
      c2(1:s%whole(1), 1:s%whole(2)) => texts(:, which)
      call to(c2(f(1):l(1):t(1), f(2):l(2):t(2)), other)
    case (301)
      call c_f_pointer(at, r1, s%whole(:1))
      call to(r1(f(1):l(1):t(1))%letter, other)
    case (302)
      call c_f_pointer(at, r2, s%whole(:2))
      call to(r2(f(1):l(1):t(1), f(2):l(2):t(2))%letter, other)
    case (401)
      call c_f_pointer(at, b1, s%whole(:1))
      call to(b1(f(1):l(1):t(1)), other)
    case (402)
      call c_f_pointer(at, b2, s%whole(:2))
      call to(b2(f(1):l(1):t(1), f(2):l(2):t(2)), other)
    case (501)
      call c_f_pointer(at, r1, s%whole(:1))
      call to(r1(f(1):l(1):t(1))%part, other)
    case (502)
      call c_f_pointer(at, r2, s%whole(:2))
      call to(r2(f(1):l(1):t(1), f(2):l(2):t(2))%part, other)
    case (601)
      call c_f_pointer(at, z1, s%whole(:1))
      d1 => z1(f(1):l(1):t(1))%im
      call to(d1, other)
    case (602)
      call c_f_pointer(at, z2, s%whole(:2))
      d2 => z2(f(1):l(1):t(1), f(2):l(2):t(2))%im
      call to(d2, other)
    case (701)
      call c_f_pointer(at, y1, s%whole(:1))
      call to(y1(f(1):l(1):t(1)), other)
    case (702)
      call c_f_pointer(at, y2, s%whole(:2))
      call to(y2(f(1):l(1):t(1), f(2):l(2):t(2)), other)
    case default
      error stop 'a form of a section is missing'
    end select
  end subroutine

  subroutine pass_second(a, unused) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, unused
    call pass(2, call_current, a)
  end subroutine

  subroutine call_current(b, a) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    call current(a, b)
  end subroutine

  ! Chooses a datatype for a section: basic elements, pairs, or elements with gaps.
  subroutine choose_layout(s, layout)
    type(section), intent(inout) :: s
    integer, intent(in) :: layout
    s%data = merge(2, 1, layout == 3 .or. layout == 4)
    s%span = s%data
    select case (layout)
    case (1); s%datatype = basic
    case (2); s%datatype = same_type
    case (3); s%datatype = pair_type
    case (4); s%datatype = gap_type; s%span = 4
    end select
  end subroutine

  ! Calls a procedure with contiguous buffers and with sections. The buffers have room for some
  ! blocks with the same number of basic elements. The first `layouts` datatypes are used; `same`
  ! says whether all buffers need the same one.
  subroutine compare(name, action, blocks_a, blocks_b, layouts, same, of)
    character(len=*), intent(in) :: name
    procedure(call_with_buffers) :: action
    integer, intent(in) :: blocks_a, blocks_b, layouts
    logical, intent(in) :: same
    integer, intent(in), optional :: of
    integer :: most, layout
    integer(8) :: seed
    integer(1), allocatable :: flat_a(:), flat_b(:)
    call choose_data(of)
    call draw(a_, blocks_a)
    call draw(b_, blocks_b)
    if (same) then
      layout = pick(layouts, SHARED)
      call choose_layout(a_, layout)
      call choose_layout(b_, layout)
    else
      call choose_layout(a_, pick(layouts, OWN))
      call choose_layout(b_, pick(layouts, OWN))
    end if
    most = min(room(a_, blocks_a), room(b_, blocks_b))
    if (pick(4, OWN) == 1) most = pick(most + 1, OWN) - 1
    call MPI_Allreduce(MPI_IN_PLACE, most, 1, MPI_INTEGER, MPI_MIN, MPI_COMM_WORLD)
    most = most / 2 * 2
    a_%count = most / a_%data
    b_%count = most / b_%data
    current => action
    call fill(a_%pool)
    call fill(b_%pool)
    a_%before = a_%pool
    b_%before = b_%pool
    a_%flat = a_%pool(a_%place)
    b_%flat = b_%pool(b_%place)
    allocate(flat_a, source=a_%flat)
    allocate(flat_b, source=b_%flat)
    side = 0
    ! Both calls draw the same numbers.
    seed = seeds(SHARED)
    with_sections = .false.
    call current(a_%flat, b_%flat)
    side_before = side
    side = 0
    seeds(SHARED) = seed
    with_sections = .true.
    call pass(1, pass_second, 0)
    if (any(a_%flat /= flat_a) .or. any(b_%flat /= flat_b) .or. any(side /= 0)) &
      changes = changes + 1
    a_%before(a_%place) = a_%flat
    b_%before(b_%place) = b_%flat
    call check(all(a_%pool == a_%before), name // described('a', a_))
    call check(all(b_%pool == b_%before), name // described('b', b_))
    call check(all(side == side_before), name // ', other results')
    call free_data()
  end subroutine

  integer function room(s, blocks)
    type(section), intent(in) :: s
    integer, intent(in) :: blocks
    room = size(s%place) / basic_bytes / s%span / max(blocks, 1) * s%data
  end function

  function described(letter, s) result(text)
    character, intent(in) :: letter
    type(section), intent(in) :: s
    character(len=:), allocatable :: text
    character(len=90) :: line
    write (line, '(3a,i0,a,i0,a,i0,a,i0,a,i0,a,i0)') ', ', letter, ': form ', s%form, ' rank ', &
      s%rank, ' bytes ', size(s%place), ' count ', s%count, ' data ', s%data, ' span ', s%span
    text = trim(line)
  end function

  ! Changes the data of the first section, as a program does between two starts.
  subroutine stir()
    if (with_sections) then
      a_%pool(a_%place) = not(a_%pool(a_%place))
    else
      a_%flat = not(a_%flat)
    end if
  end subroutine

  ! Adds a number to the other results of a call.
  subroutine note(number)
    integer, intent(in) :: number
    integer(1) :: of(4)
    of = transfer(number, of)
    side = cshift(side, 4)
    side(:4) = of
  end subroutine

  ! Completes requests by each of the functions for it.
  subroutine complete(requests, keep)
    type(MPI_Request), intent(inout) :: requests(:)
    logical, intent(in), optional :: keep
    type(MPI_Status) :: status, statuses(size(requests))
    integer :: i, index, done, indices(size(requests))
    logical :: flag
    select case (pick(10, OWN))
    case (1)
      call MPI_Waitall(size(requests), requests, MPI_STATUSES_IGNORE)
    case (2)
      do i = 1, size(requests)
        call MPI_Wait(requests(i), status)
      end do
    case (3)
      do i = 1, size(requests)
        call MPI_Waitany(size(requests), requests, index, status)
      end do
    case (4)
      done = 0
      do while (done < size(requests))
        call MPI_Waitsome(size(requests), requests, i, indices, statuses)
        done = done + i
      end do
    case (5)
      flag = .false.
      do while (.not. flag)
        call MPI_Testall(size(requests), requests, flag, statuses)
      end do
    case (6)
      do i = size(requests), 1, -1
        flag = .false.
        do while (.not. flag)
          call MPI_Test(requests(i), flag, MPI_STATUS_IGNORE)
        end do
      end do
    case (7)
      do i = 1, size(requests)
        flag = .false.
        do while (.not. flag)
          call MPI_Testany(size(requests), requests, index, flag, status)
        end do
      end do
    case (8)
      done = 0
      do while (done < size(requests))
        call MPI_Testsome(size(requests), requests, i, indices, MPI_STATUSES_IGNORE)
        if (i /= MPI_UNDEFINED) done = done + i
      end do
    case (9)
      do i = 1, size(requests)
        flag = .false.
        do while (.not. flag)
          call MPI_Request_get_status(requests(i), flag, status)
        end do
      end do
      call MPI_Waitall(size(requests), requests, statuses)
    case (10)
      flag = .false.
      do while (.not. flag)
        call MPI_Request_get_status_all(size(requests), requests, flag, statuses)
      end do
      call MPI_Waitall(size(requests), requests, statuses)
    end select
    if (.not. present(keep)) call check(all(requests == MPI_REQUEST_NULL), 'requests are complete')
  end subroutine

  subroutine start_twice(requests)
    type(MPI_Request), intent(inout) :: requests(:)
    integer :: i
    call MPI_Startall(size(requests), requests)
    call complete(requests, .true.)
    call stir()
    do i = size(requests), 1, -1
      call MPI_Start(requests(i))
    end do
    call complete(requests, .true.)
    do i = 1, size(requests)
      call MPI_Request_free(requests(i))
    end do
    call check(all(requests == MPI_REQUEST_NULL), 'persistent requests are free')
  end subroutine
end module
