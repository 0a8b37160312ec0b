! ranks: 1 2 4
! Each kind of argument that is converted: handles and arrays of them, strings, logicals, special
! addresses, kinds of integers. With module mpi.
module old_part
  implicit none
contains
  ! The special addresses of mpif.h are those of the module.
  subroutine sum_in_place(numbers, ierr)
    include 'mpif.h'
    integer :: numbers(:), ierr
    call MPI_Allreduce(MPI_IN_PLACE, numbers, size(numbers), MPI_INTEGER, MPI_SUM, &
                       MPI_COMM_WORLD, ierr)
  end subroutine
end module

program arguments
  use, intrinsic :: iso_c_binding
  use mpi
  use old_part
  implicit none
  integer :: ierr, rank, ranks, faults, i, j, n, comm, group, world, info, request, requests(40)
  integer :: datatype, types(3), lengths(3), dims(2), coords(2), errhandler, code, class, win
  integer :: ints(10), kinds(4), file, message, status(MPI_STATUS_SIZE), matrix(6, 6), part(6)
  integer(MPI_ADDRESS_KIND) :: displacements(3), lower, extent, base, address
  integer(MPI_OFFSET_KIND) :: offset
  integer(MPI_COUNT_KIND) :: count
  logical :: flag, periods(2), remain(2)
  character(len=MPI_MAX_OBJECT_NAME) :: name
  character(len=5) :: short
  character(len=40) :: value
  character(len=MPI_MAX_ERROR_STRING) :: text
  integer, allocatable :: counts(:), starts(:), all_types(:)
  integer :: from(1), to(1)
  integer, pointer :: memory(:)
  type(c_ptr) :: pointer
  real(8) :: real8
  complex(4) :: complex4

  faults = 0
  call MPI_Init_thread(MPI_THREAD_SERIALIZED, n, ierr)
  call check(n >= MPI_THREAD_SERIALIZED .and. ierr == MPI_SUCCESS, 'MPI_Init_thread')
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call MPI_Initialized(flag, ierr)
  call check(flag, 'MPI_Initialized')
  call MPI_Finalized(flag, ierr)
  call check(.not. flag, 'MPI_Finalized')

  ! Special addresses.
  ints = rank + 1
  call sum_in_place(ints, ierr)
  call check(all(ints == ranks * (ranks + 1) / 2), 'MPI_IN_PLACE of mpif.h')
  ints = rank + 1
  call MPI_Allreduce(MPI_IN_PLACE, ints, 10, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, ierr)
  call check(all(ints == ranks), 'MPI_IN_PLACE of the module')
  call MPI_Get_address(ints(3), address, ierr)
  call MPI_Type_create_hindexed(1, [2], [address], MPI_INTEGER, datatype, ierr)
  call MPI_Type_commit(datatype, ierr)
  if (rank == 0) ints = 77
  call MPI_Bcast(MPI_BOTTOM, 1, datatype, 0, MPI_COMM_WORLD, ierr)
  call check(all(ints(3:4) == 77) .and. (rank == 0 .or. ints(2) == ranks), 'MPI_BOTTOM')
  call MPI_Type_free(datatype, ierr)
  call check(datatype == MPI_DATATYPE_NULL, 'MPI_Type_free')

  ! Strings.
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_set_name(comm, 'a name with blanks   ', ierr)
  name = repeat('x', len(name))
  call MPI_Comm_get_name(comm, name, n, ierr)
  call check(name == 'a name with blanks' .and. n == 18, 'MPI_Comm_get_name')
  short = 'xxxxx'
  call MPI_Comm_get_name(comm, short, n, ierr)
  call check(short == 'a nam', 'MPI_Comm_get_name with little room')
  call MPI_Info_create(info, ierr)
  call MPI_Info_set(info, '  key ', '  some value  ', ierr)
  call MPI_Info_get_valuelen(info, 'key', n, flag, ierr)
  call check(flag .and. n == 10, 'MPI_Info_get_valuelen')
  value = repeat('x', 40)
  call MPI_Info_get(info, 'key  ', 40, value, flag, ierr)
  call check(flag .and. value == 'some value', 'MPI_Info_get')
  value = repeat('x', 40)
  call MPI_Info_get(info, 'key', 4, value, flag, ierr)
  call check(flag .and. value == 'some', 'MPI_Info_get of a part')
  n = 0
  call MPI_Info_get_string(info, 'key', n, value, flag, ierr)
  call check(flag .and. n == 10, 'MPI_Info_get_string of the length')
  n = 40
  value = repeat('x', 40)
  call MPI_Info_get_string(info, 'key', n, value, flag, ierr)
  call check(flag .and. n == 10 .and. value == 'some value', 'MPI_Info_get_string')
  value = 'unchanged'
  call MPI_Info_get_string(info, 'absent', n, value, flag, ierr)
  call check(.not. flag .and. value == 'unchanged', 'MPI_Info_get_string of no value')
  call MPI_Info_get_nthkey(info, 0, value, ierr)
  call check(value == 'key', 'MPI_Info_get_nthkey')
  call MPI_Info_free(info, ierr)
  call check(info == MPI_INFO_NULL, 'MPI_Info_free')

  ! Failed calls leave their results unchanged, and errors are errors.
  call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN, ierr)
  call MPI_Comm_get_errhandler(comm, errhandler, ierr)
  call check(errhandler == MPI_ERRORS_RETURN, 'MPI_Comm_get_errhandler')
  request = -99
  call MPI_Isend(ints, -1, MPI_INTEGER, 0, 0, comm, request, code)
  call MPI_Error_class(code, class, ierr)
  call check(class == MPI_ERR_COUNT .and. request == -99, 'a bad count')
  call MPI_Error_string(code, text, n, ierr)
  call check(n > 0 .and. len_trim(text) == n, 'MPI_Error_string')

  ! Logicals, and a topology.
  dims = 0
  call MPI_Dims_create(ranks, 2, dims, ierr)
  periods = [.true., .false.]
  call MPI_Cart_create(comm, 2, dims, periods, .false., n, ierr)
  periods = [.false., .true.]
  coords = -1
  call MPI_Cart_get(n, 2, dims, periods, coords, ierr)
  call check(periods(1) .and. .not. periods(2), 'logicals of MPI_Cart_get')
  call MPI_Cart_rank(n, coords, i, ierr)
  call check(i == rank, 'MPI_Cart_rank')
  remain = [.true., .false.]
  call MPI_Cart_sub(n, remain, j, ierr)
  call MPI_Comm_size(j, i, ierr)
  call check(i == dims(1), 'MPI_Cart_sub')
  call MPI_Comm_free(j, ierr)
  call MPI_Comm_free(n, ierr)

  ! Weights and neighbours of a graph.
  from = [modulo(rank - 1, ranks)]
  to = [modulo(rank + 1, ranks)]
  call MPI_Dist_graph_create_adjacent(comm, 1, from, MPI_UNWEIGHTED, 1, to, MPI_UNWEIGHTED, &
                                      MPI_INFO_NULL, .false., n, ierr)
  call MPI_Dist_graph_neighbors_count(n, i, j, flag, ierr)
  call check(i == 1 .and. j == 1 .and. .not. flag, 'MPI_UNWEIGHTED')
  ints = -1
  call MPI_Neighbor_alltoallw([rank + 100], [1], [0_MPI_ADDRESS_KIND], [MPI_INTEGER], ints, [1], &
                              [0_MPI_ADDRESS_KIND], [MPI_INTEGER], n, ierr)
  call check(ints(1) == from(1) + 100, 'MPI_Neighbor_alltoallw')
  call MPI_Comm_free(n, ierr)

  ! Arrays of handles.
  lengths = [1, 2, 1]
  displacements = [0, 8, 24]
  types = [MPI_INTEGER, MPI_DOUBLE_PRECISION, MPI_CHARACTER]
  call MPI_Type_create_struct(3, lengths, displacements, types, datatype, ierr)
  call MPI_Type_get_extent(datatype, lower, extent, ierr)
  call check(lower == 0 .and. extent == 32, 'MPI_Type_create_struct')
  call MPI_Type_get_envelope(datatype, kinds(1), kinds(2), kinds(3), kinds(4), ierr)
  call check(all(kinds == [4, 3, 3, MPI_COMBINER_STRUCT]), 'MPI_Type_get_envelope')
  types = 0
  call MPI_Type_get_contents(datatype, 4, 3, 3, ints, displacements, types, ierr)
  call check(all(types == [MPI_INTEGER, MPI_DOUBLE_PRECISION, MPI_CHARACTER]) .and. &
             all(ints(1:4) == [3, 1, 2, 1]) .and. displacements(3) == 24, 'MPI_Type_get_contents')
  call MPI_Type_size_x(datatype, count, ierr)
  call check(count == 21, 'MPI_Type_size_x')
  call MPI_Type_free(datatype, ierr)
  ! More requests than fit the array on the stack.
  do i = 1, 20
    call MPI_Irecv(matrix(1 + mod(i, 6), 1), 0, MPI_INTEGER, from(1), i, comm, requests(i), ierr)
    call MPI_Isend(matrix, 0, MPI_INTEGER, to(1), i, comm, requests(20 + i), ierr)
  end do
  call MPI_Waitall(40, requests, MPI_STATUSES_IGNORE, ierr)
  call check(all(requests == MPI_REQUEST_NULL), 'MPI_Waitall of 40 requests')
  allocate(counts(ranks), starts(ranks), all_types(ranks))
  counts = 1
  starts = [(4 * i, i = 0, ranks - 1)]
  all_types = MPI_INTEGER
  part = -1
  call MPI_Alltoallw([(rank * 10 + i, i = 0, ranks - 1)], counts, starts, all_types, part, &
                     counts, starts, all_types, comm, ierr)
  call check(all(part(:ranks) == [(i * 10 + rank, i = 0, ranks - 1)]), 'MPI_Alltoallw')
  call MPI_Comm_group(comm, world, ierr)
  call MPI_Group_range_incl(world, 1, reshape([0, ranks - 1, 2], [3, 1]), group, ierr)
  call MPI_Group_size(group, n, ierr)
  call check(n == (ranks + 1) / 2, 'MPI_Group_range_incl')
  call MPI_Group_free(group, ierr)
  call MPI_Group_free(world, ierr)

  ! Array sections are copied.
  matrix = reshape([(i, i = 1, 36)], [6, 6])
  call MPI_Sendrecv(matrix(2, :), 6, MPI_INTEGER, to(1), 1, part, 6, MPI_INTEGER, from(1), 1, &
                    comm, MPI_STATUS_IGNORE, ierr)
  call check(all(part == [2, 8, 14, 20, 26, 32]), 'a section to send')
  call MPI_Sendrecv([1, 2, 3, 4, 5, 6], 6, MPI_INTEGER, to(1), 1, matrix(6:1:-1, 3), 6, &
                    MPI_INTEGER, from(1), 1, comm, status, ierr)
  call check(all(matrix(:, 3) == [6, 5, 4, 3, 2, 1]), 'a section with a negative stride')

  ! A matched message.
  call MPI_Isend(rank, 1, MPI_INTEGER, to(1), 9, comm, request, ierr)
  call MPI_Mprobe(from(1), 9, comm, message, status, ierr)
  call MPI_Mrecv(n, 1, MPI_INTEGER, message, MPI_STATUS_IGNORE, ierr)
  call check(n == from(1) .and. message == MPI_MESSAGE_NULL, 'MPI_Mrecv')
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)

  ! Memory and windows, with both types of addresses.
  call MPI_Alloc_mem(40_MPI_ADDRESS_KIND, MPI_INFO_NULL, pointer, ierr)
  call c_f_pointer(pointer, memory, [10])
  memory = rank
  call MPI_Win_create(memory, 40_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, comm, win, ierr)
  call MPI_Win_fence(0, win, ierr)
  call MPI_Put([rank + 50], 1, MPI_INTEGER, to(1), 2_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win, ierr)
  call MPI_Win_fence(0, win, ierr)
  call check(memory(3) == from(1) + 50 .and. memory(2) == rank, 'MPI_Put')
  call MPI_Win_get_attr(win, MPI_WIN_SIZE, address, flag, ierr)
  call check(flag .and. address == 40, 'MPI_WIN_SIZE')
  call MPI_Win_get_attr(win, MPI_WIN_BASE, base, flag, ierr)
  call MPI_Get_address(memory, address, ierr)
  call check(flag .and. base == address, 'MPI_WIN_BASE')
  call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, address, flag, ierr)
  call check(flag .and. address == 4, 'MPI_WIN_DISP_UNIT')
  call MPI_Win_free(win, ierr)
  call check(win == MPI_WIN_NULL, 'MPI_Win_free')
  call MPI_Free_mem(memory, ierr)
  call MPI_Win_allocate(8_MPI_ADDRESS_KIND, 1, MPI_INFO_NULL, comm, base, win, ierr)
  call MPI_Win_get_attr(win, MPI_WIN_BASE, address, flag, ierr)
  call check(base == address, 'MPI_Win_allocate')
  call MPI_Win_free(win, ierr)
  call check(MPI_Aint_diff(MPI_Aint_add(base, 5_MPI_ADDRESS_KIND), base) == 5, 'MPI_Aint_add')

  ! Files.
  call MPI_File_open(MPI_COMM_SELF, 'oxmpi-fortran-test  ', &
                     MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, &
                     MPI_INFO_NULL, file, ierr)
  if (ierr == MPI_SUCCESS) then
    offset = 4
    call MPI_File_set_view(file, offset, MPI_INTEGER, MPI_INTEGER, 'native ', MPI_INFO_NULL, ierr)
    offset = 2
    call MPI_File_write_at(file, offset, ints, 3, MPI_INTEGER, status, ierr)
    call MPI_Get_count(status, MPI_INTEGER, n, ierr)
    call check(n == 3, 'MPI_File_write_at')
    call MPI_File_get_view(file, offset, i, j, value, ierr)
    call check(offset == 4 .and. i == MPI_INTEGER .and. value == 'native', 'MPI_File_get_view')
    call MPI_File_close(file, ierr)
    call check(file == MPI_FILE_NULL, 'MPI_File_close')
  end if

  ! Sizes and types by precision.
  call MPI_Sizeof(real8, n, ierr)
  call check(n == 8, 'MPI_Sizeof of REAL')
  call MPI_Sizeof(complex4, n, ierr)
  call check(n == 8, 'MPI_Sizeof of COMPLEX')
  call MPI_Sizeof(matrix, n, ierr)
  call check(n == 4, 'MPI_Sizeof of an array')
  call MPI_Type_create_f90_real(15, MPI_UNDEFINED, datatype, ierr)
  call MPI_Type_size(datatype, n, ierr)
  call check(n == 8, 'MPI_Type_create_f90_real')
  call MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 8, datatype, ierr)
  call check(datatype == MPI_INTEGER8, 'MPI_Type_match_size')
  call PMPI_Comm_size(comm, n, ierr)
  call check(n == ranks, 'PMPI_Comm_size')
  call MPI_F_sync_reg(ints)
  call MPI_Pcontrol(1)

  call MPI_Comm_free(comm, ierr)
  call MPI_Allreduce(MPI_IN_PLACE, faults, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == 0 .and. faults == 0) print '(a)', 'ok'
  call MPI_Finalize(ierr)
contains
  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) then
      print '(a,i0,2a)', 'rank ', rank, ': wrong: ', what
      faults = faults + 1
    end if
  end subroutine
end program
