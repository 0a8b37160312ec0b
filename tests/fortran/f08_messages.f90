! ranks: 1 3
! not for flang: version 19 has no procedures of the program with arguments of any rank
! Messages between random array sections: all modes, nonblocking, persistent, probed, packed.
include 'support/sections.f90'

module messages
  use sections
  implicit none
  integer :: left, right
contains
  subroutine modes(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    integer :: n
    integer(MPI_COUNT_KIND) :: count, many
    integer(1), target :: memory(80000)
    integer :: mode
    mode = pick(5, SHARED)
    count = a_%count
    call MPI_Irecv(b, b_%count, b_%datatype, left, 7, MPI_COMM_WORLD, request)
    if (mode == 1) call MPI_Send(a, a_%count, a_%datatype, right, 7, MPI_COMM_WORLD)
    if (mode == 2) call MPI_Ssend(a, a_%count, a_%datatype, right, 7, MPI_COMM_WORLD)
    if (mode == 3) then
      call MPI_Buffer_attach(memory, size(memory))
      call MPI_Bsend(a, a_%count, a_%datatype, right, 7, MPI_COMM_WORLD)
    end if
    if (mode == 4) then
      call MPI_Barrier(MPI_COMM_WORLD)
      call MPI_Rsend(a, count, a_%datatype, right, 7, MPI_COMM_WORLD)
    end if
    if (mode == 5) call MPI_Send(a, count, a_%datatype, right, 7, MPI_COMM_WORLD)
    call MPI_Wait(request, status)
    call MPI_Get_count(status, b_%datatype, n)
    call note(n)
    call MPI_Get_elements(status, b_%datatype, many)
    call note(int(many))
    if (mode == 3) call detach(memory)
  end subroutine

  subroutine detach(memory)
    integer(1), target :: memory(:)
    type(c_ptr) :: at
    integer :: bytes
    call MPI_Buffer_detach(at, bytes)
    call check(c_associated(at, c_loc(memory)) .and. bytes == size(memory), 'MPI_Buffer_detach')
  end subroutine

  subroutine blocking_receives(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    type(MPI_Request) :: request
    type(MPI_Message) :: message
    type(MPI_Status) :: status
    logical :: flag
    integer :: mode
    mode = pick(6, SHARED)
    if (mode == 6) then
      call MPI_Sendrecv(a, a_%count, a_%datatype, right, 1, b, b_%count, b_%datatype, left, 1, &
                        MPI_COMM_WORLD, status)
      return
    end if
    if (mode <= 3) then
      call MPI_Isend(a, a_%count, a_%datatype, right, 1, MPI_COMM_WORLD, request)
    else
      call MPI_Issend(a, int(a_%count, MPI_COUNT_KIND), a_%datatype, right, 1, MPI_COMM_WORLD, &
                      request)
    end if
    select case (mode)
    case (1)
      call MPI_Recv(b, b_%count, b_%datatype, left, 1, MPI_COMM_WORLD, status)
    case (2)
      call MPI_Probe(left, 1, MPI_COMM_WORLD, status)
      call MPI_Recv(b, int(b_%count, MPI_COUNT_KIND), b_%datatype, left, 1, MPI_COMM_WORLD, &
                    MPI_STATUS_IGNORE)
    case (3)
      call MPI_Mprobe(left, 1, MPI_COMM_WORLD, message, status)
      call MPI_Mrecv(b, b_%count, b_%datatype, message, status)
      call check(message == MPI_MESSAGE_NULL, 'MPI_Mrecv')
    case default
      flag = .false.
      do while (.not. flag)
        call MPI_Improbe(left, 1, MPI_COMM_WORLD, flag, message, status)
      end do
      call MPI_Wait(received(b, message), status)
    end select
    call MPI_Wait(request, MPI_STATUS_IGNORE)
  contains
    function received(b, message) result(request)
      type(*), dimension(..), asynchronous :: b
      type(MPI_Message), intent(inout) :: message
      type(MPI_Request), pointer :: request
      allocate(request)
      call MPI_Imrecv(b, b_%count, b_%datatype, message, request)
    end function
  end subroutine

  subroutine nonblocking(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    type(MPI_Request) :: requests(2)
    integer(1), target :: memory(80000)
    integer :: mode
    mode = pick(5, SHARED)
    if (mode == 5) then
      call MPI_Isendrecv(a, a_%count, a_%datatype, right, 1, b, b_%count, b_%datatype, left, 1, &
                         MPI_COMM_WORLD, requests(1))
      call complete(requests(:1))
      return
    end if
    call MPI_Irecv(b, int(b_%count, MPI_COUNT_KIND), b_%datatype, left, 1, MPI_COMM_WORLD, &
                   requests(2))
    call MPI_Barrier(MPI_COMM_WORLD)
    select case (mode)
    case (1)
      call MPI_Isend(a, a_%count, a_%datatype, right, 1, MPI_COMM_WORLD, requests(1))
    case (2)
      call MPI_Issend(a, a_%count, a_%datatype, right, 1, MPI_COMM_WORLD, requests(1))
    case (3)
      call MPI_Irsend(a, a_%count, a_%datatype, right, 1, MPI_COMM_WORLD, requests(1))
    case (4)
      call MPI_Buffer_attach(memory, size(memory))
      call MPI_Ibsend(a, a_%count, a_%datatype, right, 1, MPI_COMM_WORLD, requests(1))
    end select
    call complete(requests)
    if (mode == 4) call detach(memory)
  end subroutine

  subroutine persistent(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    type(MPI_Request) :: requests(2)
    integer(1), target :: memory(80000)
    integer :: mode
    mode = pick(4, SHARED)
    call MPI_Recv_init(b, b_%count, b_%datatype, left, 1, MPI_COMM_WORLD, requests(1))
    select case (mode)
    case (1)
      call MPI_Send_init(a, a_%count, a_%datatype, right, 1, MPI_COMM_WORLD, requests(2))
    case (2)
      call MPI_Ssend_init(a, int(a_%count, MPI_COUNT_KIND), a_%datatype, right, 1, &
                          MPI_COMM_WORLD, requests(2))
    case (3)
      call MPI_Buffer_attach(memory, size(memory))
      call MPI_Bsend_init(a, a_%count, a_%datatype, right, 1, MPI_COMM_WORLD, requests(2))
    case (4)
      ! The receive must have started.
      call MPI_Rsend_init(a, a_%count, a_%datatype, right, 1, MPI_COMM_WORLD, requests(2))
      call MPI_Start(requests(1))
      call MPI_Barrier(MPI_COMM_WORLD)
      call MPI_Start(requests(2))
      call complete(requests, .true.)
      call MPI_Request_free(requests(1))
      call MPI_Request_free(requests(2))
      return
    end select
    call start_twice(requests)
    if (mode == 3) call detach(memory)
  end subroutine

  subroutine replaced(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    type(MPI_Request) :: request(1)
    call MPI_Sendrecv_replace(a, a_%count, a_%datatype, right, 1, left, 1, MPI_COMM_WORLD, &
                              MPI_STATUS_IGNORE)
    call MPI_Isendrecv_replace(b, b_%count, b_%datatype, left, 2, right, 2, MPI_COMM_WORLD, &
                               request(1))
    call complete(request)
  end subroutine

  ! A buffer is packed into contiguous memory, and is unpacked into the other one.
  subroutine packed(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    integer(1) :: memory(80000)
    integer :: position, length, i
    integer(MPI_ADDRESS_KIND) :: large_position, large_length
    integer(MPI_COUNT_KIND) :: more
    select case (pick(4, SHARED))
    case (1)
      position = 0
      call MPI_Pack(a, a_%count, a_%datatype, memory, size(memory), position, MPI_COMM_WORLD)
      length = position
      position = 0
      call MPI_Unpack(memory, length, position, b, b_%count, b_%datatype, MPI_COMM_WORLD)
    case (2)
      large_position = 0
      call MPI_Pack_external('external32', a, a_%count, a_%datatype, memory, &
                             int(size(memory), MPI_ADDRESS_KIND), large_position)
      large_length = large_position
      large_position = 0
      call MPI_Unpack_external('external32  ', memory, large_length, large_position, b, &
                               b_%count, b_%datatype)
      position = int(large_position)
    case (3)
      more = 0
      call MPI_Pack(a, int(a_%count, MPI_COUNT_KIND), a_%datatype, memory, &
                    int(size(memory), MPI_COUNT_KIND), more, MPI_COMM_WORLD)
      position = int(more)
      more = 0
      call MPI_Unpack(memory, int(position, MPI_COUNT_KIND), more, b, &
                      int(b_%count, MPI_COUNT_KIND), b_%datatype, MPI_COMM_WORLD)
    case (4)
      ! The packed data lie in the sections.
      memory(:size(b_%place)) = [(int(mod(i * 7, 127), 1), i=1, size(b_%place))]
      position = 0
      if (size(b_%place) > 9) &
        call MPI_Pack(memory, size(b_%place) - 9, MPI_BYTE, b, size(b_%place), position, &
                      MPI_COMM_WORLD)
      call note(position)
      position = 0
      call MPI_Unpack(a, size(a_%place), position, memory, size(a_%place), MPI_BYTE, &
                      MPI_COMM_WORLD)
      side(101:3000) = memory(101:3000)
      side(101 + size(a_%place):3000) = 0
    end select
    call note(position)
  end subroutine
end module

program f08_messages
  use messages
  implicit none
  integer :: i
  call start_sections()
  right = mod(rank + 1, ranks)
  left = mod(rank + ranks - 1, ranks)
  do i = 1, 60
    call compare('modes', modes, 1, 1, 4, .false.)
    call compare('blocking receives', blocking_receives, 1, 1, 4, .false.)
    call compare('nonblocking', nonblocking, 1, 1, 4, .false.)
    call compare('persistent', persistent, 1, 1, 4, .false.)
    call compare('replaced', replaced, 1, 1, 4, .true.)
    call compare('packed', packed, 1, 1, 4, .false.)
  end do
  call check(changes > 200, 'most messages have data')
  call end_sections()
end program
