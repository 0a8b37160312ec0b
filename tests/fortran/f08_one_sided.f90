! ranks: 1 3
! not for flang: version 19 has no procedures of the program with arguments of any rank
! One-sided communication from and to random array sections.
include 'support/sections.f90'

module one_sided
  use sections
  implicit none
  type(MPI_Win) :: win
  integer(1), pointer :: memory(:)
  integer :: target_rank
  integer(MPI_ADDRESS_KIND), parameter :: start = 16
contains
  ! The window gets known bytes, and an epoch begins.
  subroutine begin()
    integer :: i
    call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win)
    memory = [(int(mod(i * 7 + rank, 100), 1), i=1, size(memory))]
    call MPI_Win_unlock(rank, win)
    call MPI_Barrier(MPI_COMM_WORLD)
    if (mod(basic_bytes, 4) == 0) then
      call MPI_Win_fence(0, win)
    else
      call MPI_Win_lock_all(0, win)
    end if
  end subroutine

  subroutine end()
    if (mod(basic_bytes, 4) == 0) then
      call MPI_Win_fence(0, win)
    else
      call MPI_Win_unlock_all(win)
      call MPI_Barrier(MPI_COMM_WORLD)
    end if
    call MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win)
    side(1:3900) = memory(:3900)
    call note(sum(int(memory)))
    call MPI_Win_unlock(rank, win)
    call MPI_Barrier(MPI_COMM_WORLD)
  end subroutine

  subroutine puts(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    call begin()
    if (pick(2, SHARED) == 1) then
      call MPI_Put(a, a_%count, a_%datatype, target_rank, start, a_%count, a_%datatype, win)
    else
      call MPI_Put(a, int(a_%count, MPI_COUNT_KIND), a_%datatype, target_rank, start, &
                   int(b_%count * b_%data, MPI_COUNT_KIND), basic, win)
    end if
    call end()
    call begin()
    if (pick(2, SHARED) == 1) then
      call MPI_Get(b, b_%count, b_%datatype, target_rank, start, b_%count * b_%data, basic, win)
    else
      call MPI_Get(b, int(b_%count, MPI_COUNT_KIND), b_%datatype, target_rank, start, &
                   int(b_%count * b_%data, MPI_COUNT_KIND), basic, win)
    end if
    call end()
  end subroutine

  subroutine accumulates(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    call begin()
    call MPI_Accumulate(a, a_%count, a_%datatype, target_rank, start, a_%count * a_%data, basic, &
                        MPI_BXOR, win)
    call MPI_Accumulate(a, int(a_%count, MPI_COUNT_KIND), a_%datatype, target_rank, start, &
                        int(a_%count * a_%data, MPI_COUNT_KIND), basic, MPI_SUM, win)
    call end()
    call begin()
    call MPI_Get_accumulate(a, a_%count, a_%datatype, b, b_%count, b_%datatype, target_rank, &
                            start, b_%count * b_%data, basic, MPI_REPLACE, win)
    call end()
  end subroutine

  ! A request says when a copy of a section can be returned.
  subroutine requests(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    type(MPI_Request) :: request(2)
    call MPI_Barrier(MPI_COMM_WORLD)
    memory(:) = int(rank, 1)
    call MPI_Win_lock_all(0, win)
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_Rput(a, a_%count, a_%datatype, target_rank, start, a_%count * a_%data, basic, win, &
                  request(1))
    call complete(request(:1))
    call MPI_Win_flush(target_rank, win)
    call MPI_Raccumulate(a, a_%count, a_%datatype, target_rank, 20000_MPI_ADDRESS_KIND, &
                         a_%count * a_%data, basic, MPI_BXOR, win, request(1))
    call MPI_Rget(b, b_%count, b_%datatype, target_rank, start, b_%count * b_%data, basic, win, &
                  request(2))
    call complete(request)
    call MPI_Win_flush(target_rank, win)
    call MPI_Rget_accumulate(a, a_%count, a_%datatype, b, b_%count, b_%datatype, target_rank, &
                             20000_MPI_ADDRESS_KIND, b_%count * b_%data, basic, MPI_BXOR, win, &
                             request(1))
    call complete(request(:1))
    call MPI_Win_unlock_all(win)
    call MPI_Barrier(MPI_COMM_WORLD)
    call note(sum(int(memory)))
    side(101:3900) = memory(16101:19900)
  end subroutine

  ! One element of a section.
  subroutine elements(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    integer(4) :: two = 2
    call begin()
    if (a_%count > 0) then
      call MPI_Fetch_and_op(a, b, MPI_INTEGER, target_rank, start, MPI_SUM, win)
      call MPI_Win_fence(0, win)
      call MPI_Compare_and_swap(two, b, b, MPI_INTEGER, target_rank, start, win)
    end if
    call end()
  end subroutine
end module

program test
  use one_sided
  implicit none
  type(c_ptr) :: at
  integer, target :: numbers(20)
  integer :: i, code, class
  type(MPI_Datatype) :: vector
  call start_sections()
  target_rank = mod(rank + 1, ranks)
  call MPI_Win_allocate(40000_MPI_ADDRESS_KIND, 1, MPI_INFO_NULL, MPI_COMM_WORLD, at, win)
  call c_f_pointer(at, memory, [40000])
  do i = 1, 30
    call compare('puts and gets', puts, 1, 1, 2, .false.)
    call compare('accumulates', accumulates, 1, 1, 2, .false., INTEGERS)
    call compare('requests', requests, 1, 1, 4, .false., INTEGERS)
    call compare('elements', elements, 1, 1, 1, .false., INTEGERS)
  end do
  ! Nothing says when a copy could be returned, so these calls refuse the section.
  numbers = [(i, i=1, 20)]
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  call MPI_Type_vector(2, 1, 2, MPI_INTEGER, vector)
  call MPI_Type_commit(vector)
  call MPI_Win_fence(0, win)
  call MPI_Get(numbers(1:20:3), 1, vector, target_rank, start, 2, MPI_INTEGER, win, code)
  call MPI_Error_class(code, class)
  call check(class == MPI_ERR_BUFFER .and. all(numbers == [(i, i=1, 20)]), 'MPI_Get with gaps')
  call MPI_Get(numbers(1:20:3), 1, MPI_2INTEGER, target_rank, start, 2, MPI_INTEGER, win, code)
  call MPI_Error_class(code, class)
  call check(class == MPI_ERR_BUFFER .and. all(numbers == [(i, i=1, 20)]), 'MPI_Get of pairs')
  call MPI_Get(numbers(1:20:3), 8, MPI_INTEGER, target_rank, start, 2, MPI_INTEGER, win, code)
  call MPI_Error_class(code, class)
  call check(class == MPI_ERR_BUFFER, 'MPI_Get of more than the section has')
  call MPI_Win_fence(0, win)
  call MPI_Win_free(win)
  call MPI_Win_create(numbers(1:20:2), 40_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_SELF, win, &
                      code)
  call MPI_Error_class(code, class)
  call check(class == MPI_ERR_BUFFER .and. win == MPI_WIN_NULL, 'MPI_Win_create of a section')
  call check(changes > 60, 'most calls have data')
  call end_sections()
end program
