! ranks: 1 2
! What module mpi_f08 has besides buffers: handles and their operators, statuses, special arguments
! of all three interfaces in one program, large counts, strings, results of failed calls.
module old_parts
  implicit none
contains
  subroutine with_header(numbers, datatype, left, right)
    include 'mpif.h'
    integer :: numbers(:), datatype, left, right, ierr, request(2)
    call MPI_Allreduce(MPI_IN_PLACE, numbers, size(numbers), MPI_INTEGER, MPI_SUM, &
                       MPI_COMM_WORLD, ierr)
    call MPI_Irecv(MPI_BOTTOM, 1, datatype, left, 1, MPI_COMM_WORLD, request(1), ierr)
    call MPI_Isend(numbers, 2, MPI_INTEGER, right, 1, MPI_COMM_WORLD, request(2), ierr)
    call MPI_Wait(request(1), MPI_STATUS_IGNORE, ierr)
    call MPI_Waitall(2, request, MPI_STATUSES_IGNORE, ierr)
  end subroutine

  subroutine with_module(numbers, datatype, left, right)
    use mpi
    integer :: numbers(:), datatype, left, right, ierr, request(2)
    call MPI_Allreduce(MPI_IN_PLACE, numbers, size(numbers), MPI_INTEGER, MPI_SUM, &
                       MPI_COMM_WORLD, ierr)
    call MPI_Irecv(MPI_BOTTOM, 1, datatype, left, 1, MPI_COMM_WORLD, request(1), ierr)
    call MPI_Isend(numbers, 2, MPI_INTEGER, right, 1, MPI_COMM_WORLD, request(2), ierr)
    call MPI_Wait(request(1), MPI_STATUS_IGNORE, ierr)
    call MPI_Waitall(2, request, MPI_STATUSES_IGNORE, ierr)
  end subroutine

  ! The types of mpi_f08 are in module mpi as well.
  logical function converts(old_comm)
    use mpi
    integer, intent(in) :: old_comm
    type(MPI_Comm) :: comm
    type(MPI_Status) :: status
    integer :: old(MPI_STATUS_SIZE), again(MPI_STATUS_SIZE), ierr, number, got
    comm%MPI_VAL = old_comm
    number = 8
    call MPI_Sendrecv(number, 1, MPI_INTEGER, 0, 17, got, 1, MPI_INTEGER, 0, 17, &
                      MPI_COMM_SELF, old, ierr)
    call MPI_Status_f2f08(old, status, ierr)
    again = 0
    call MPI_Status_f082f(status, again)
    converts = all(old == again) .and. status%MPI_TAG == 17 .and. status%MPI_SOURCE == 0 .and. &
               comm == MPI_Comm(old_comm) .and. .not. comm /= MPI_Comm(old_comm) .and. &
               comm /= MPI_Comm(MPI_COMM_NULL) .and. ierr == MPI_SUCCESS
  end function
end module

program interface_of_f08
  use, intrinsic :: iso_c_binding
  use mpi_f08
  use old_parts
  implicit none
  type record
    integer :: number
    complex(8) :: value
    character(len=3) :: text
  end type
  integer :: rank, ranks, faults, i, n, code, class, left, right
  integer, target :: numbers(60)
  integer :: two(2), matrix(6, 20), from(6, 20)
  integer(MPI_ADDRESS_KIND) :: address, other_address
  integer(MPI_COUNT_KIND) :: many, more
  type(MPI_Comm) :: comm, comms(2)
  type(MPI_Request) :: request, requests(4)
  type(MPI_Status) :: status, statuses(2)
  type(MPI_Datatype) :: datatype, types(3)
  type(MPI_Message) :: message
  type(MPI_Group) :: group
  type(MPI_Win) :: win
  type(MPI_Info) :: info
  type(c_ptr) :: pointer
  real(8), pointer :: memory(:)
  integer(1), target :: buffer(1000)
  logical :: flag
  character(len=30) :: text
  character(len=5) :: texts(8), received(8)
  type(record) :: records(9), copies(9)
  complex(4) :: complexes(10)
  double precision :: before

  faults = 0
  call MPI_Init_thread(MPI_THREAD_SERIALIZED, n)
  call check(n >= MPI_THREAD_SERIALIZED, 'MPI_Init_thread')
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call PMPI_Comm_size(MPI_COMM_WORLD, ranks)
  right = mod(rank + 1, ranks)
  left = mod(rank + ranks - 1, ranks)
  call check(MPI_SUBARRAYS_SUPPORTED, 'MPI_SUBARRAYS_SUPPORTED')

  ! Handles and their operators.
  comms = [MPI_COMM_WORLD, MPI_COMM_SELF]
  call check(all((comms == MPI_COMM_WORLD) .eqv. [.true., .false.]), '== of communicators')
  call check(all((comms /= MPI_COMM_WORLD) .eqv. [.false., .true.]), '/= of communicators')
  call check(MPI_INTEGER == MPI_INTEGER .and. MPI_INTEGER /= MPI_REAL .and. &
             .not. MPI_INTEGER == MPI_REAL .and. .not. MPI_INTEGER /= MPI_INTEGER, 'datatypes')
  call check(MPI_ERRORS_RETURN == MPI_ERRORS_RETURN .and. MPI_ERRORS_RETURN /= MPI_ERRHANDLER_NULL &
             .and. .not. MPI_ERRORS_RETURN == MPI_ERRORS_ARE_FATAL, 'error handlers')
  call check(MPI_FILE_NULL == MPI_FILE_NULL .and. .not. MPI_FILE_NULL /= MPI_FILE_NULL .and. &
             MPI_FILE_NULL /= MPI_File(9), 'files')
  call check(MPI_GROUP_EMPTY == MPI_GROUP_EMPTY .and. MPI_GROUP_EMPTY /= MPI_GROUP_NULL .and. &
             .not. MPI_GROUP_EMPTY == MPI_GROUP_NULL, 'groups')
  call check(MPI_INFO_ENV == MPI_INFO_ENV .and. MPI_INFO_ENV /= MPI_INFO_NULL .and. &
             .not. MPI_INFO_ENV == MPI_INFO_NULL, 'infos')
  call check(MPI_MESSAGE_NULL == MPI_MESSAGE_NULL .and. MPI_MESSAGE_NULL /= MPI_MESSAGE_NO_PROC &
             .and. .not. MPI_MESSAGE_NULL == MPI_MESSAGE_NO_PROC, 'messages')
  call check(MPI_SUM == MPI_SUM .and. MPI_SUM /= MPI_PROD .and. .not. MPI_SUM == MPI_PROD, &
             'operations')
  call check(MPI_REQUEST_NULL == MPI_REQUEST_NULL .and. MPI_REQUEST_NULL /= MPI_Request(5) .and. &
             .not. MPI_REQUEST_NULL == MPI_Request(5), 'requests')
  call check(MPI_SESSION_NULL == MPI_SESSION_NULL .and. MPI_SESSION_NULL /= MPI_Session(5) .and. &
             .not. MPI_SESSION_NULL == MPI_Session(5), 'sessions')
  call check(MPI_WIN_NULL == MPI_WIN_NULL .and. MPI_WIN_NULL /= MPI_Win(5) .and. &
             .not. MPI_WIN_NULL == MPI_Win(5), 'windows')

  ! Special arguments of all interfaces, and statuses.
  call MPI_Get_address(numbers(11), address)
  call MPI_Type_create_hindexed(1, [2], [address], MPI_INTEGER, datatype)
  call MPI_Type_commit(datatype)
  do i = 1, 3
    numbers = i
    if (i == 1) call with_header(numbers(1:10), datatype%MPI_VAL, left, right)
    if (i == 2) call with_module(numbers(1:10), datatype%MPI_VAL, left, right)
    if (i == 3) then
      call MPI_Allreduce(MPI_IN_PLACE, numbers, 10, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
      call MPI_Irecv(MPI_BOTTOM, 1, datatype, left, 1, MPI_COMM_WORLD, requests(1))
      call MPI_Isend(numbers(5:7:2), 2, MPI_INTEGER, right, 1, MPI_COMM_WORLD, requests(2))
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    end if
    call check(all(numbers(:12) == i * ranks) .and. all(numbers(13:) == i), 'special arguments')
  end do
  call MPI_Type_free(datatype)
  call check(converts(MPI_COMM_WORLD%MPI_VAL), 'types in module mpi')
  call MPI_Sendrecv(two, 2, MPI_INTEGER, 0, 5, numbers, 9, MPI_INTEGER, 0, 5, MPI_COMM_SELF, &
                    status)
  call MPI_Status_f082f(status, numbers(:8))
  call MPI_Status_f2f08(numbers(:8), statuses(1), code)
  call MPI_Get_count(statuses(1), MPI_INTEGER, n)
  call check(n == 2 .and. statuses(1)%MPI_TAG == 5 .and. code == MPI_SUCCESS .and. &
             numbers(MPI_TAG) == 5 .and. numbers(MPI_SOURCE) == 0, 'conversions of statuses')
  call MPI_Status_get_tag(status, n)
  call check(n == 5, 'MPI_Status_get_tag')
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [left], MPI_UNWEIGHTED, 1, [right], &
                                      MPI_UNWEIGHTED, MPI_INFO_NULL, .false., comm)
  call MPI_Dist_graph_neighbors_count(comm, i, n, flag)
  call check(i == 1 .and. n == 1 .and. .not. flag, 'MPI_UNWEIGHTED')
  call MPI_Dist_graph_neighbors(comm, 1, two(1:1), MPI_UNWEIGHTED, 1, two(2:2), MPI_UNWEIGHTED)
  call check(two(1) == left .and. two(2) == right, 'MPI_Dist_graph_neighbors')
  call MPI_Comm_free(comm)
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, [0], MPI_WEIGHTS_EMPTY, 0, [0], &
                                      MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, .false., comm)
  call MPI_Dist_graph_neighbors_count(comm, i, n, flag)
  call check(i == 0 .and. flag, 'MPI_WEIGHTS_EMPTY')
  call MPI_Comm_free(comm)

  ! Buffers for buffered sends.
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_attach_buffer(comm, buffer, size(buffer))
  call MPI_Comm_detach_buffer(comm, pointer, n)
  call check(c_associated(pointer, c_loc(buffer(1))) .and. n == 1000, 'MPI_Comm_detach_buffer')
  call MPI_Buffer_attach(buffer, 900_MPI_COUNT_KIND)
  call MPI_Buffer_detach(pointer, many)
  call check(c_associated(pointer, c_loc(buffer(1))) .and. many == 900, 'large MPI_Buffer_detach')
  call MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0)
  call MPI_Bsend(numbers(1:9:4), 3, MPI_INTEGER, 0, 0, MPI_COMM_SELF)
  call MPI_Recv(numbers(40:60:5), 3, MPI_INTEGER, 0, 0, MPI_COMM_SELF, status, code)
  call MPI_Buffer_detach(pointer, n)
  call check(.not. c_associated(pointer, c_loc(buffer(1))), 'MPI_BUFFER_AUTOMATIC')

  ! Pointers, addresses, functions with results, profiling names.
  call MPI_Alloc_mem(80_MPI_ADDRESS_KIND, MPI_INFO_NULL, pointer)
  call c_f_pointer(pointer, memory, [10])
  memory = 2
  call MPI_Free_mem(memory)
  call MPI_Win_allocate_shared(80_MPI_ADDRESS_KIND, 8, MPI_INFO_NULL, MPI_COMM_SELF, pointer, win)
  call c_f_pointer(pointer, memory, [10])
  memory = 3
  call MPI_Win_shared_query(win, 0, address, n, pointer)
  call check(c_associated(pointer, c_loc(memory(1))) .and. address == 80 .and. n == 8, &
             'MPI_Win_shared_query')
  call MPI_Win_free(win)
  call MPI_Get_address(numbers(1), address)
  call PMPI_Get_address(numbers(3), other_address)
  call check(MPI_Aint_diff(other_address, address) == 8 .and. &
             PMPI_Aint_add(address, 8_MPI_ADDRESS_KIND) == other_address, 'MPI_Aint_diff')
  before = MPI_Wtime()
  call check(PMPI_Wtime() >= before .and. MPI_Wtick() > 0 .and. PMPI_Wtick() < 1, 'MPI_Wtime')
  call MPI_F_sync_reg(numbers(::2))

  call through_address()

  ! MPI_Sizeof.
  call MPI_Sizeof(numbers, n)
  call check(n == 4, 'MPI_Sizeof of INTEGER')
  call MPI_Sizeof(many, n, code)
  call check(n == 8 .and. code == MPI_SUCCESS, 'MPI_Sizeof of INTEGER(8)')
  call MPI_Sizeof(complexes(1), n)
  call check(n == 8, 'MPI_Sizeof of COMPLEX')
  call MPI_Sizeof(memory, n)
  call check(n == 8, 'MPI_Sizeof of REAL(8)')

  ! Strings.
  call MPI_Comm_set_name(comm, '  a name ')
  text = repeat('x', 30)
  call MPI_Comm_get_name(comm, text, n)
  call check(text == '  a name' .and. n == 8, 'MPI_Comm_get_name')
  call MPI_Info_create(info)
  call MPI_Info_set(info, ' key ', ' value ')
  n = 30
  call MPI_Info_get_string(info, 'key', n, text, flag)
  call check(flag .and. text == 'value' .and. n == 5, 'MPI_Info_get_string')
  call MPI_Info_free(info)
  call check(info == MPI_INFO_NULL, 'MPI_Info_free')

  ! Components of derived types, parts of complex numbers, substrings, in nonblocking calls.
  do i = 1, 9
    records(i) = record(i, cmplx(i, -i, 8), 'abc')
    copies(i) = record(0, (0, 0), '---')
  end do
  texts = [('a' // achar(64 + i) // achar(96 + i) // 'yz', i=1, 8)]
  received = '.....'
  complexes = (0, 0)
  call MPI_Irecv(copies(9:1:-2)%value%im, 5, MPI_DOUBLE_PRECISION, left, 1, comm, requests(1))
  call MPI_Irecv(copies%text(2:3), 18, MPI_CHARACTER, left, 2, comm, requests(2))
  call MPI_Irecv(received(8:2:-3)(2:4), 9, MPI_CHARACTER, left, 3, comm, requests(3))
  call MPI_Irecv(complexes(2:10:4)%re, 3, MPI_REAL, left, 4, comm, requests(4))
  call MPI_Send(records(2:6)%value%im, 5, MPI_DOUBLE_PRECISION, right, 1, comm)
  call MPI_Send(records%text(1:2), 18, MPI_BYTE, right, 2, comm)
  call MPI_Send(texts(2:8:3)(2:4), 9, MPI_CHARACTER, right, 3, comm)
  call MPI_Send(real(records(1:3)%number), 3, MPI_REAL, right, 4, comm)
  call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE)
  call check(all(copies(1::2)%value%im == [-6, -5, -4, -3, -2]) .and. &
             all(copies%value%re == 0) .and. all(copies(2::2)%value%im == 0) .and. &
             all(copies%number == 0) .and. all(copies%text == '-ab'), 'components')
  call check(all(received(2:8:3) == ['.Hhy.', '.Eey.', '.Bby.']) .and. &
             count(received == '.....') == 5, 'substrings')
  call check(all(complexes(2:10:4) == [1, 2, 3]) .and. sum(complexes) == 6, 'real parts')

  ! Two receives into one section, with datatypes that have gaps: none may overwrite the other.
  call MPI_Type_vector(3, 1, 2, MPI_INTEGER, datatype)
  call MPI_Type_commit(datatype)
  numbers = -1
  call MPI_Irecv(numbers(1:11:2), 1, datatype, left, 1, comm, requests(1))
  call MPI_Irecv(numbers(3:13:2), 1, datatype, left, 2, comm, requests(2))
  call MPI_Send([1, 2, 3], 3, MPI_INTEGER, right, 1, comm)
  call MPI_Send([4, 5, 6], 3, MPI_INTEGER, right, 2, comm)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call check(all(numbers(:13) == [1, -1, 4, -1, 2, -1, 5, -1, 3, -1, 6, -1, -1]), &
             'receives between each other')
  ! A receive of a copy is cancelled, and one is freed while it is open.
  numbers = -1
  call MPI_Irecv(numbers(1:11:2), 1, datatype, left, 3, comm, request)
  call MPI_Cancel(request)
  call MPI_Wait(request, status)
  call MPI_Test_cancelled(status, flag)
  call check(flag .and. request == MPI_REQUEST_NULL .and. all(numbers == -1), 'MPI_Cancel')
  call MPI_Isend(numbers(1:11:2), 1, datatype, right, 4, comm, request)
  call MPI_Request_free(request)
  call check(request == MPI_REQUEST_NULL, 'MPI_Request_free')
  call MPI_Recv(numbers(20:40:4), 1, datatype, left, 4, comm, status)
  call MPI_Type_free(datatype)

  ! Partitions of a section, of as many columns each.
  matrix = reshape([(i, i=1, 120)], [6, 20])
  from = 0
  call MPI_Psend_init(matrix(1:6:2, 2:20:3), 7, 3_MPI_COUNT_KIND, MPI_INTEGER, right, 0, comm, &
                      MPI_INFO_NULL, requests(1))
  call MPI_Precv_init(from(6:2:-2, 1:20:3), 7, 3_MPI_COUNT_KIND, MPI_INTEGER, left, 0, comm, &
                      MPI_INFO_NULL, requests(2))
  do n = 1, 2
    call MPI_Startall(2, requests)
    do i = 6, 0, -1
      matrix(:, 2 + 3 * i) = matrix(:, 2 + 3 * i) + 1000
      call MPI_Pready(i, requests(1))
    end do
    flag = .false.
    do while (.not. flag)
      call MPI_Parrived(requests(2), 3, flag)
    end do
    call check(all(from(6:2:-2, 10) == matrix(1:6:2, 11)), 'MPI_Parrived')
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call check(all(from(6:2:-2, 1:20:3) == matrix(1:6:2, 2:20:3)) .and. &
               all(from(1:5:2, :) == 0) .and. all(from(:, 2:20:3) == 0), 'partitions')
  end do
  call MPI_Request_free(requests(1))
  call MPI_Request_free(requests(2))

  ! Large counts.
  call MPI_Type_contiguous(3_MPI_COUNT_KIND, MPI_INTEGER, types(1))
  call MPI_Type_create_struct(2_MPI_COUNT_KIND, [1_MPI_COUNT_KIND, 2_MPI_COUNT_KIND], &
                              [0_MPI_COUNT_KIND, 16_MPI_COUNT_KIND], [types(1), MPI_REAL], types(2))
  call MPI_Type_size(types(2), many)
  call MPI_Type_size(types(2), n)
  call check(many == 20 .and. n == 20, 'MPI_Type_size')
  call MPI_Type_get_extent(types(2), many, more)
  call check(many == 0 .and. more == 24, 'MPI_Type_get_extent')
  block
    integer(MPI_COUNT_KIND) :: integers, addresses, counts, datatypes, large(5)
    integer :: combiner, small(3), n1, n2, n3
    integer(MPI_ADDRESS_KIND) :: far(2)
    type(MPI_Datatype) :: parts(2)
    call MPI_Type_get_envelope(types(2), integers, addresses, counts, datatypes, combiner)
    call check(combiner == MPI_COMBINER_STRUCT .and. datatypes == 2 .and. &
               integers + addresses + counts == 5, 'large MPI_Type_get_envelope')
    call MPI_Type_get_contents(types(2), integers, addresses, counts, datatypes, small, far, &
                               large, parts)
    call check(large(1) == 2 .and. large(3) == 2 .and. large(5) == 16 .and. &
               parts(2) == MPI_REAL .and. parts(1) /= MPI_DATATYPE_NULL, &
               'large MPI_Type_get_contents')
    call MPI_Type_free(parts(1))
    call MPI_Type_vector(3, 1, 2, MPI_INTEGER, types(3))
    call MPI_Type_get_envelope(types(3), n1, n2, n3, combiner)
    call MPI_Type_get_contents(types(3), n1, n2, n3, small, far, parts)
    call check(all(small == [3, 1, 2]) .and. parts(1) == MPI_INTEGER .and. &
               combiner == MPI_COMBINER_VECTOR, 'MPI_Type_get_contents')
  end block
  do i = 1, 3
    call MPI_Type_free(types(i))
  end do

  ! Failed calls leave their results as they were.
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
  request = MPI_Request(-99)
  call MPI_Isend(numbers(::2), -1, MPI_INTEGER, 0, 0, MPI_COMM_WORLD, request, code)
  call MPI_Error_class(code, class)
  call check(class == MPI_ERR_COUNT .and. request == MPI_Request(-99), 'a bad count')
  call MPI_Irecv(numbers(::2), 31, MPI_INTEGER, 0, 0, MPI_COMM_WORLD, request, code)
  call MPI_Error_class(code, class)
  call check(class == MPI_ERR_BUFFER .and. request == MPI_Request(-99), 'a count of too many')
  call MPI_Irecv(numbers(1:0), 0, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, request, code)
  call check(code == MPI_SUCCESS .and. request /= MPI_Request(-99), 'no elements')
  call MPI_Wait(request, status)
  call check(status%MPI_SOURCE == MPI_PROC_NULL, 'a receive of nothing')
  call MPI_Irecv(numbers(::2), 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD, request, code)
  call MPI_Error_class(code, class)
  call check(class == MPI_ERR_TYPE, 'the null datatype')
  call MPI_Send(numbers(::2), 1, MPI_INTEGER, 0, 0, MPI_COMM_NULL, code)
  call MPI_Error_class(code, class)
  call check(class == MPI_ERR_COMM, 'the null communicator')
  call MPI_Gather(numbers(::2), 1, MPI_INTEGER, from(::2, :), 1, MPI_INTEGER, 0, MPI_COMM_NULL, &
                  code)
  call MPI_Error_class(code, class)
  call check(class == MPI_ERR_COMM, 'the null communicator of a collective call')
  comms(1) = MPI_Comm(-99)
  call MPI_Comm_split(MPI_COMM_SELF, -5, 0, comms(1), code)
  call check(code /= MPI_SUCCESS .and. comms(1) == MPI_Comm(-99), 'MPI_Comm_split')
  group = MPI_Group(-99)
  call MPI_Comm_group(MPI_COMM_NULL, group, code)
  call check(code /= MPI_SUCCESS .and. group == MPI_Group(-99), 'MPI_Comm_group')
  message = MPI_Message(-99)
  flag = .true.
  call MPI_Improbe(5000, 0, MPI_COMM_SELF, flag, message, status, code)
  call check(code /= MPI_SUCCESS .and. message == MPI_Message(-99) .and. flag, 'MPI_Improbe')
  text = 'unchanged'
  n = 77
  call MPI_Comm_get_name(MPI_Comm(-99), text, n, code)
  call check(code /= MPI_SUCCESS .and. text == 'unchanged' .and. n == 77, 'MPI_Comm_get_name')
  datatype = MPI_Datatype(-99)
  call MPI_Type_contiguous(-1, MPI_INTEGER, datatype, code)
  call check(code /= MPI_SUCCESS .and. datatype == MPI_Datatype(-99), 'MPI_Type_contiguous')

  call MPI_Comm_free(comm)
  call check(comm == MPI_COMM_NULL, 'MPI_Comm_free')
  call MPI_Allreduce(MPI_IN_PLACE, faults, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0 .and. faults == 0) print '(a)', 'ok'
  call MPI_Finalize()
contains
  ! The compiler must not forget assignments to variables whose address the library has.
  subroutine through_address()
    integer :: variable, got
    integer(MPI_ADDRESS_KIND) :: place
    type(MPI_Datatype) :: at_place
    variable = 1
    call MPI_Get_address(variable, place)
    call MPI_Type_create_hindexed(1, [1], [place], MPI_INTEGER, at_place)
    call MPI_Type_commit(at_place)
    variable = 44
    call MPI_Sendrecv(MPI_BOTTOM, 1, at_place, 0, 0, got, 1, MPI_INTEGER, 0, 0, MPI_COMM_SELF, &
                      MPI_STATUS_IGNORE)
    variable = 1
    call MPI_Type_free(at_place)
    call check(got == 44, 'an assignment before a message of MPI_BOTTOM')
  end subroutine

  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) then
      print '(a,i0,2a)', 'rank ', rank, ': wrong: ', what
      faults = faults + 1
    end if
  end subroutine
end program
