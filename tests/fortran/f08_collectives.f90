! ranks: 1 3
! not for flang: version 19 has no procedures of the program with arguments of any rank
! Collectives on random array sections: blocking, nonblocking, persistent and with large counts; with
! blocks of equal and of different lengths; among neighbours, in place, and between groups.
include 'support/sections.f90'

module collectives
  use sections
  implicit none
  integer, parameter :: BLOCKING = 1, NONBLOCKING = 2, PERSISTENT = 3, LARGE = 4
  integer :: mode, root, here, there
  type(MPI_Comm) :: comm, graph, between
  type(MPI_Op) :: op, op_of_program
  type(MPI_Request) :: request(1)
  ! Counts and displacements of blocks, for each process.
  integer, allocatable :: a_counts(:), b_counts(:), a_places(:), b_places(:), a_bytes(:), b_bytes(:)
  integer(MPI_COUNT_KIND), allocatable :: many_a(:), many_b(:), large_a, large_b
  integer(MPI_ADDRESS_KIND), allocatable :: far_a(:), far_b(:), far_a_bytes(:), far_b_bytes(:)
  type(MPI_Datatype), allocatable :: a_types(:), b_types(:)
contains
  subroutine finish()
    if (mode == NONBLOCKING) call complete(request)
    if (mode == PERSISTENT) call start_twice(request)
  end subroutine

  ! Xor of integers, of those that the datatype has.
  subroutine xor_of_program(from, to, length, datatype)
    type(c_ptr), value :: from, to
    integer :: length
    type(MPI_Datatype) :: datatype
    integer, pointer :: x(:), y(:)
    integer(MPI_ADDRESS_KIND) :: lower, extent
    integer :: words
    call MPI_Type_get_extent(datatype, lower, extent)
    call MPI_Type_size(datatype, words)
    call c_f_pointer(from, x, [length * extent / 4])
    call c_f_pointer(to, y, [length * extent / 4])
    if (words == extent) then
      y = ieor(x, y)
    else
      y(::2) = ieor(x(::2), y(::2))
    end if
  end subroutine

  ! Data for the block between two processes, in pairs of basic elements.
  integer function share(from, to)
    integer, intent(in) :: from, to
    share = a_%count * a_%data / 2 * mod(from + 2 * to, 4) / 3 * 2
  end function

  ! Lists for blocks from `sources` and to `destinations`. The blocks lie in another order.
  subroutine make_lists(sources, destinations, is_gather)
    integer, intent(in) :: sources(:), destinations(:)
    logical, intent(in) :: is_gather
    integer :: i
    a_counts = [(share(rank, destinations(i)) / a_%data, i=1, size(destinations))]
    b_counts = [(share(sources(i), rank) / b_%data, i=1, size(sources))]
    if (is_gather) b_counts = [(share(sources(i), 1) / b_%data, i=1, size(sources))]
    a_places = [((size(destinations) - i) * a_%count, i=1, size(destinations))]
    b_places = [(mod(i, size(sources)) * b_%count, i=1, size(sources))]
    a_bytes = a_places * a_%span * basic_bytes
    b_bytes = b_places * b_%span * basic_bytes
    a_types = [(a_%datatype, i=1, size(destinations))]
    b_types = [(b_%datatype, i=1, size(sources))]
    many_a = a_counts
    many_b = b_counts
    far_a = a_places
    far_b = b_places
    far_a_bytes = a_bytes
    far_b_bytes = b_bytes
  end subroutine

  ! The same lists, with another datatype for some blocks.
  subroutine make_lists_of_types(sources, destinations)
    integer, intent(in) :: sources(:), destinations(:)
    call make_lists(sources, destinations, .false.)
    a_counts(1) = a_counts(1) * a_%data
    a_types(1) = basic
    b_counts(size(b_counts)) = b_counts(size(b_counts)) * b_%data
    b_types(size(b_types)) = basic
    many_a = a_counts
    many_b = b_counts
  end subroutine


  subroutine bcast(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Bcast(a, a_%count, a_%datatype, root, comm)
    case (NONBLOCKING)
      call MPI_Ibcast(a, a_%count, a_%datatype, root, comm, request(1))
    case (PERSISTENT)
      call MPI_Bcast_init(a, a_%count, a_%datatype, root, comm, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Bcast(a, int(a_%count, MPI_COUNT_KIND), a_%datatype, root, comm)
    end select
    call finish()
  end subroutine

  subroutine gather(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Gather(a, a_%count, a_%datatype, b, b_%count, b_%datatype, root, comm)
    case (NONBLOCKING)
      call MPI_Igather(a, a_%count, a_%datatype, b, b_%count, b_%datatype, root, comm, request(1))
    case (PERSISTENT)
      call MPI_Gather_init(a, a_%count, a_%datatype, b, b_%count, b_%datatype, root, comm, &
        MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Gather(a, int(a_%count, MPI_COUNT_KIND), a_%datatype, b, int(b_%count, &
        MPI_COUNT_KIND), b_%datatype, root, comm)
    end select
    call finish()
  end subroutine

  subroutine scatter(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Scatter(a, a_%count, a_%datatype, b, b_%count, b_%datatype, root, comm)
    case (NONBLOCKING)
      call MPI_Iscatter(a, a_%count, a_%datatype, b, b_%count, b_%datatype, root, comm, &
        request(1))
    case (PERSISTENT)
      call MPI_Scatter_init(a, a_%count, a_%datatype, b, b_%count, b_%datatype, root, comm, &
        MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Scatter(a, int(a_%count, MPI_COUNT_KIND), a_%datatype, b, int(b_%count, &
        MPI_COUNT_KIND), b_%datatype, root, comm)
    end select
    call finish()
  end subroutine

  subroutine allgather(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Allgather(a, a_%count, a_%datatype, b, b_%count, b_%datatype, comm)
    case (NONBLOCKING)
      call MPI_Iallgather(a, a_%count, a_%datatype, b, b_%count, b_%datatype, comm, request(1))
    case (PERSISTENT)
      call MPI_Allgather_init(a, a_%count, a_%datatype, b, b_%count, b_%datatype, comm, &
        MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Allgather(a, int(a_%count, MPI_COUNT_KIND), a_%datatype, b, int(b_%count, &
        MPI_COUNT_KIND), b_%datatype, comm)
    end select
    call finish()
  end subroutine

  subroutine alltoall(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Alltoall(a, a_%count, a_%datatype, b, b_%count, b_%datatype, comm)
    case (NONBLOCKING)
      call MPI_Ialltoall(a, a_%count, a_%datatype, b, b_%count, b_%datatype, comm, request(1))
    case (PERSISTENT)
      call MPI_Alltoall_init(a, a_%count, a_%datatype, b, b_%count, b_%datatype, comm, &
        MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Alltoall(a, int(a_%count, MPI_COUNT_KIND), a_%datatype, b, int(b_%count, &
        MPI_COUNT_KIND), b_%datatype, comm)
    end select
    call finish()
  end subroutine

  subroutine gatherv(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    call make_lists(everyone(), everyone(), .true.)
    select case (mode)
    case (BLOCKING)
      call MPI_Gatherv(a, share(rank, 1) / a_%data, a_%datatype, b, b_counts, b_places, &
        b_%datatype, root, comm)
    case (NONBLOCKING)
      call MPI_Igatherv(a, share(rank, 1) / a_%data, a_%datatype, b, b_counts, b_places, &
        b_%datatype, root, comm, request(1))
    case (PERSISTENT)
      call MPI_Gatherv_init(a, share(rank, 1) / a_%data, a_%datatype, b, b_counts, b_places, &
        b_%datatype, root, comm, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Gatherv(a, int(share(rank, 1) / a_%data, MPI_COUNT_KIND), a_%datatype, b, many_b, &
        far_b, b_%datatype, root, comm)
    end select
    call finish()
  end subroutine

  subroutine scatterv(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    call make_lists(everyone(), everyone(), .false.)
    select case (mode)
    case (BLOCKING)
      call MPI_Scatterv(a, a_counts, a_places, a_%datatype, b, share(root, rank) / b_%data, &
        b_%datatype, root, comm)
    case (NONBLOCKING)
      call MPI_Iscatterv(a, a_counts, a_places, a_%datatype, b, share(root, rank) / b_%data, &
        b_%datatype, root, comm, request(1))
    case (PERSISTENT)
      call MPI_Scatterv_init(a, a_counts, a_places, a_%datatype, b, share(root, rank) / b_%data, &
        b_%datatype, root, comm, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Scatterv(a, many_a, far_a, a_%datatype, b, int(share(root, rank) / b_%data, &
        MPI_COUNT_KIND), b_%datatype, root, comm)
    end select
    call finish()
  end subroutine

  subroutine allgatherv(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    call make_lists(everyone(), everyone(), .true.)
    select case (mode)
    case (BLOCKING)
      call MPI_Allgatherv(a, share(rank, 1) / a_%data, a_%datatype, b, b_counts, b_places, &
        b_%datatype, comm)
    case (NONBLOCKING)
      call MPI_Iallgatherv(a, share(rank, 1) / a_%data, a_%datatype, b, b_counts, b_places, &
        b_%datatype, comm, request(1))
    case (PERSISTENT)
      call MPI_Allgatherv_init(a, share(rank, 1) / a_%data, a_%datatype, b, b_counts, b_places, &
        b_%datatype, comm, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Allgatherv(a, int(share(rank, 1) / a_%data, MPI_COUNT_KIND), a_%datatype, b, &
        many_b, far_b, b_%datatype, comm)
    end select
    call finish()
  end subroutine

  subroutine alltoallv(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    call make_lists(everyone(), everyone(), .false.)
    select case (mode)
    case (BLOCKING)
      call MPI_Alltoallv(a, a_counts, a_places, a_%datatype, b, b_counts, b_places, b_%datatype, &
        comm)
    case (NONBLOCKING)
      call MPI_Ialltoallv(a, a_counts, a_places, a_%datatype, b, b_counts, b_places, &
        b_%datatype, comm, request(1))
    case (PERSISTENT)
      call MPI_Alltoallv_init(a, a_counts, a_places, a_%datatype, b, b_counts, b_places, &
        b_%datatype, comm, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Alltoallv(a, many_a, far_a, a_%datatype, b, many_b, far_b, b_%datatype, comm)
    end select
    call finish()
  end subroutine

  subroutine alltoallw(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    call make_lists_of_types(everyone(), everyone())
    select case (mode)
    case (BLOCKING)
      call MPI_Alltoallw(a, a_counts, a_bytes, a_types, b, b_counts, b_bytes, b_types, comm)
    case (NONBLOCKING)
      call MPI_Ialltoallw(a, a_counts, a_bytes, a_types, b, b_counts, b_bytes, b_types, comm, &
        request(1))
    case (PERSISTENT)
      call MPI_Alltoallw_init(a, a_counts, a_bytes, a_types, b, b_counts, b_bytes, b_types, &
        comm, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Alltoallw(a, many_a, far_a_bytes, a_types, b, many_b, far_b_bytes, b_types, comm)
    end select
    call finish()
  end subroutine

  subroutine reduce(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Reduce(a, b, a_%count, a_%datatype, op, root, comm)
    case (NONBLOCKING)
      call MPI_Ireduce(a, b, a_%count, a_%datatype, op, root, comm, request(1))
    case (PERSISTENT)
      call MPI_Reduce_init(a, b, a_%count, a_%datatype, op, root, comm, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Reduce(a, b, int(a_%count, MPI_COUNT_KIND), a_%datatype, op, root, comm)
    end select
    call finish()
  end subroutine

  subroutine allreduce(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Allreduce(a, b, a_%count, a_%datatype, op, comm)
    case (NONBLOCKING)
      call MPI_Iallreduce(a, b, a_%count, a_%datatype, op, comm, request(1))
    case (PERSISTENT)
      call MPI_Allreduce_init(a, b, a_%count, a_%datatype, op, comm, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Allreduce(a, b, int(a_%count, MPI_COUNT_KIND), a_%datatype, op, comm)
    end select
    call finish()
  end subroutine

  subroutine scan(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Scan(a, b, a_%count, a_%datatype, op, comm)
    case (NONBLOCKING)
      call MPI_Iscan(a, b, a_%count, a_%datatype, op, comm, request(1))
    case (PERSISTENT)
      call MPI_Scan_init(a, b, a_%count, a_%datatype, op, comm, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Scan(a, b, int(a_%count, MPI_COUNT_KIND), a_%datatype, op, comm)
    end select
    call finish()
  end subroutine

  subroutine exscan(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Exscan(a, b, a_%count, a_%datatype, op, comm)
    case (NONBLOCKING)
      call MPI_Iexscan(a, b, a_%count, a_%datatype, op, comm, request(1))
    case (PERSISTENT)
      call MPI_Exscan_init(a, b, a_%count, a_%datatype, op, comm, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Exscan(a, b, int(a_%count, MPI_COUNT_KIND), a_%datatype, op, comm)
    end select
    call finish()
  end subroutine

  subroutine reduce_scatter_block(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Reduce_scatter_block(a, b, a_%count, a_%datatype, op, comm)
    case (NONBLOCKING)
      call MPI_Ireduce_scatter_block(a, b, a_%count, a_%datatype, op, comm, request(1))
    case (PERSISTENT)
      call MPI_Reduce_scatter_block_init(a, b, a_%count, a_%datatype, op, comm, MPI_INFO_NULL, &
        request(1))
    case (LARGE)
      call MPI_Reduce_scatter_block(a, b, int(a_%count, MPI_COUNT_KIND), a_%datatype, op, comm)
    end select
    call finish()
  end subroutine

  subroutine reduce_scatter(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    integer :: i
    b_counts = [(mod(i, 3) * a_%count / 2, i=1, ranks)]
    many_b = b_counts
    select case (mode)
    case (BLOCKING)
      call MPI_Reduce_scatter(a, b, b_counts, a_%datatype, op, comm)
    case (NONBLOCKING)
      call MPI_Ireduce_scatter(a, b, b_counts, a_%datatype, op, comm, request(1))
    case (PERSISTENT)
      call MPI_Reduce_scatter_init(a, b, b_counts, a_%datatype, op, comm, MPI_INFO_NULL, &
        request(1))
    case (LARGE)
      call MPI_Reduce_scatter(a, b, many_b, a_%datatype, op, comm)
    end select
    call finish()
  end subroutine

  subroutine allgather_in_place(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, b_%count, b_%datatype, comm)
    case (NONBLOCKING)
      call MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, b_%count, b_%datatype, comm, &
        request(1))
    case (PERSISTENT)
      call MPI_Allgather_init(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, b_%count, b_%datatype, &
        comm, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Allgather(MPI_IN_PLACE, 0_MPI_COUNT_KIND, MPI_DATATYPE_NULL, b, int(b_%count, &
        MPI_COUNT_KIND), b_%datatype, comm)
    end select
    call finish()
  end subroutine

  subroutine alltoall_in_place(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, b_%count, b_%datatype, comm)
    case (NONBLOCKING)
      call MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, b_%count, b_%datatype, comm, &
        request(1))
    case (PERSISTENT)
      call MPI_Alltoall_init(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, b_%count, b_%datatype, comm, &
        MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Alltoall(MPI_IN_PLACE, 0_MPI_COUNT_KIND, MPI_DATATYPE_NULL, b, int(b_%count, &
        MPI_COUNT_KIND), b_%datatype, comm)
    end select
    call finish()
  end subroutine

  subroutine alltoallv_in_place(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    call make_lists(everyone(), everyone(), .false.)
    b_counts = b_%count
    many_b = b_counts
    select case (mode)
    case (BLOCKING)
      call MPI_Alltoallv(MPI_IN_PLACE, [0], [0], MPI_DATATYPE_NULL, b, b_counts, b_places, &
        b_%datatype, comm)
    case (NONBLOCKING)
      call MPI_Ialltoallv(MPI_IN_PLACE, [0], [0], MPI_DATATYPE_NULL, b, b_counts, b_places, &
        b_%datatype, comm, request(1))
    case (PERSISTENT)
      call MPI_Alltoallv_init(MPI_IN_PLACE, [0], [0], MPI_DATATYPE_NULL, b, b_counts, b_places, &
        b_%datatype, comm, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Alltoallv(MPI_IN_PLACE, [0_MPI_COUNT_KIND], [0_MPI_ADDRESS_KIND], &
        MPI_DATATYPE_NULL, b, many_b, far_b, b_%datatype, comm)
    end select
    call finish()
  end subroutine

  subroutine alltoallw_in_place(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    call make_lists(everyone(), everyone(), .false.)
    b_counts = b_%count
    many_b = b_counts
    select case (mode)
    case (BLOCKING)
      call MPI_Alltoallw(MPI_IN_PLACE, [0], [0], [MPI_DATATYPE_NULL], b, b_counts, b_bytes, &
        b_types, comm)
    case (NONBLOCKING)
      call MPI_Ialltoallw(MPI_IN_PLACE, [0], [0], [MPI_DATATYPE_NULL], b, b_counts, b_bytes, &
        b_types, comm, request(1))
    case (PERSISTENT)
      call MPI_Alltoallw_init(MPI_IN_PLACE, [0], [0], [MPI_DATATYPE_NULL], b, b_counts, b_bytes, &
        b_types, comm, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Alltoallw(MPI_IN_PLACE, [0_MPI_COUNT_KIND], [0_MPI_ADDRESS_KIND], &
        [MPI_DATATYPE_NULL], b, many_b, far_b_bytes, b_types, comm)
    end select
    call finish()
  end subroutine

  subroutine allgatherv_in_place(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    call make_lists(everyone(), everyone(), .true.)
    select case (mode)
    case (BLOCKING)
      call MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, b_counts, b_places, &
        b_%datatype, comm)
    case (NONBLOCKING)
      call MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, b_counts, b_places, &
        b_%datatype, comm, request(1))
    case (PERSISTENT)
      call MPI_Allgatherv_init(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, b_counts, b_places, &
        b_%datatype, comm, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Allgatherv(MPI_IN_PLACE, 0_MPI_COUNT_KIND, MPI_DATATYPE_NULL, b, many_b, far_b, &
        b_%datatype, comm)
    end select
    call finish()
  end subroutine

  subroutine allreduce_in_place(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Allreduce(MPI_IN_PLACE, b, b_%count, b_%datatype, op, comm)
    case (NONBLOCKING)
      call MPI_Iallreduce(MPI_IN_PLACE, b, b_%count, b_%datatype, op, comm, request(1))
    case (PERSISTENT)
      call MPI_Allreduce_init(MPI_IN_PLACE, b, b_%count, b_%datatype, op, comm, MPI_INFO_NULL, &
        request(1))
    case (LARGE)
      call MPI_Allreduce(MPI_IN_PLACE, b, int(b_%count, MPI_COUNT_KIND), b_%datatype, op, comm)
    end select
    call finish()
  end subroutine

  subroutine scan_in_place(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Scan(MPI_IN_PLACE, b, b_%count, b_%datatype, op, comm)
    case (NONBLOCKING)
      call MPI_Iscan(MPI_IN_PLACE, b, b_%count, b_%datatype, op, comm, request(1))
    case (PERSISTENT)
      call MPI_Scan_init(MPI_IN_PLACE, b, b_%count, b_%datatype, op, comm, MPI_INFO_NULL, &
        request(1))
    case (LARGE)
      call MPI_Scan(MPI_IN_PLACE, b, int(b_%count, MPI_COUNT_KIND), b_%datatype, op, comm)
    end select
    call finish()
  end subroutine

  subroutine exscan_in_place(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Exscan(MPI_IN_PLACE, b, b_%count, b_%datatype, op, comm)
    case (NONBLOCKING)
      call MPI_Iexscan(MPI_IN_PLACE, b, b_%count, b_%datatype, op, comm, request(1))
    case (PERSISTENT)
      call MPI_Exscan_init(MPI_IN_PLACE, b, b_%count, b_%datatype, op, comm, MPI_INFO_NULL, &
        request(1))
    case (LARGE)
      call MPI_Exscan(MPI_IN_PLACE, b, int(b_%count, MPI_COUNT_KIND), b_%datatype, op, comm)
    end select
    call finish()
  end subroutine

  subroutine reduce_scatter_block_in_place(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Reduce_scatter_block(MPI_IN_PLACE, b, b_%count, b_%datatype, op, comm)
    case (NONBLOCKING)
      call MPI_Ireduce_scatter_block(MPI_IN_PLACE, b, b_%count, b_%datatype, op, comm, request(1))
    case (PERSISTENT)
      call MPI_Reduce_scatter_block_init(MPI_IN_PLACE, b, b_%count, b_%datatype, op, comm, &
        MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Reduce_scatter_block(MPI_IN_PLACE, b, int(b_%count, MPI_COUNT_KIND), b_%datatype, &
        op, comm)
    end select
    call finish()
  end subroutine

  subroutine reduce_scatter_in_place(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    integer :: i
    b_counts = [(mod(i, 3) * a_%count / 2, i=1, ranks)]
    many_b = b_counts
    select case (mode)
    case (BLOCKING)
      call MPI_Reduce_scatter(MPI_IN_PLACE, b, b_counts, a_%datatype, op, comm)
    case (NONBLOCKING)
      call MPI_Ireduce_scatter(MPI_IN_PLACE, b, b_counts, a_%datatype, op, comm, request(1))
    case (PERSISTENT)
      call MPI_Reduce_scatter_init(MPI_IN_PLACE, b, b_counts, a_%datatype, op, comm, &
        MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Reduce_scatter(MPI_IN_PLACE, b, many_b, a_%datatype, op, comm)
    end select
    call finish()
  end subroutine

  subroutine neighbor_allgather(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Neighbor_allgather(a, a_%count, a_%datatype, b, b_%count, b_%datatype, graph)
    case (NONBLOCKING)
      call MPI_Ineighbor_allgather(a, a_%count, a_%datatype, b, b_%count, b_%datatype, graph, &
        request(1))
    case (PERSISTENT)
      call MPI_Neighbor_allgather_init(a, a_%count, a_%datatype, b, b_%count, b_%datatype, &
        graph, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Neighbor_allgather(a, int(a_%count, MPI_COUNT_KIND), a_%datatype, b, &
        int(b_%count, MPI_COUNT_KIND), b_%datatype, graph)
    end select
    call finish()
  end subroutine

  subroutine neighbor_alltoall(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Neighbor_alltoall(a, a_%count, a_%datatype, b, b_%count, b_%datatype, graph)
    case (NONBLOCKING)
      call MPI_Ineighbor_alltoall(a, a_%count, a_%datatype, b, b_%count, b_%datatype, graph, &
        request(1))
    case (PERSISTENT)
      call MPI_Neighbor_alltoall_init(a, a_%count, a_%datatype, b, b_%count, b_%datatype, graph, &
        MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Neighbor_alltoall(a, int(a_%count, MPI_COUNT_KIND), a_%datatype, b, int(b_%count, &
        MPI_COUNT_KIND), b_%datatype, graph)
    end select
    call finish()
  end subroutine

  subroutine neighbor_allgatherv(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    call make_lists(neighbours(-1), neighbours(1), .true.)
    select case (mode)
    case (BLOCKING)
      call MPI_Neighbor_allgatherv(a, share(rank, 1) / a_%data, a_%datatype, b, b_counts, &
        b_places, b_%datatype, graph)
    case (NONBLOCKING)
      call MPI_Ineighbor_allgatherv(a, share(rank, 1) / a_%data, a_%datatype, b, b_counts, &
        b_places, b_%datatype, graph, request(1))
    case (PERSISTENT)
      call MPI_Neighbor_allgatherv_init(a, share(rank, 1) / a_%data, a_%datatype, b, b_counts, &
        b_places, b_%datatype, graph, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Neighbor_allgatherv(a, int(share(rank, 1) / a_%data, MPI_COUNT_KIND), &
        a_%datatype, b, many_b, far_b, b_%datatype, graph)
    end select
    call finish()
  end subroutine

  subroutine neighbor_alltoallv(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    call make_lists(neighbours(-1), neighbours(1), .false.)
    select case (mode)
    case (BLOCKING)
      call MPI_Neighbor_alltoallv(a, a_counts, a_places, a_%datatype, b, b_counts, b_places, &
        b_%datatype, graph)
    case (NONBLOCKING)
      call MPI_Ineighbor_alltoallv(a, a_counts, a_places, a_%datatype, b, b_counts, b_places, &
        b_%datatype, graph, request(1))
    case (PERSISTENT)
      call MPI_Neighbor_alltoallv_init(a, a_counts, a_places, a_%datatype, b, b_counts, &
        b_places, b_%datatype, graph, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Neighbor_alltoallv(a, many_a, far_a, a_%datatype, b, many_b, far_b, b_%datatype, &
        graph)
    end select
    call finish()
  end subroutine

  subroutine neighbor_alltoallw(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    call make_lists_of_types(neighbours(-1), neighbours(1))
    select case (mode)
    case (BLOCKING)
      call MPI_Neighbor_alltoallw(a, a_counts, far_a_bytes, a_types, b, b_counts, far_b_bytes, &
        b_types, graph)
    case (NONBLOCKING)
      call MPI_Ineighbor_alltoallw(a, a_counts, far_a_bytes, a_types, b, b_counts, far_b_bytes, &
        b_types, graph, request(1))
    case (PERSISTENT)
      call MPI_Neighbor_alltoallw_init(a, a_counts, far_a_bytes, a_types, b, b_counts, &
        far_b_bytes, b_types, graph, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Neighbor_alltoallw(a, many_a, far_a_bytes, a_types, b, many_b, far_b_bytes, &
        b_types, graph)
    end select
    call finish()
  end subroutine

  subroutine bcast_between(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Bcast(a, a_%count, a_%datatype, root_between(), between)
    case (NONBLOCKING)
      call MPI_Ibcast(a, a_%count, a_%datatype, root_between(), between, request(1))
    case (PERSISTENT)
      call MPI_Bcast_init(a, a_%count, a_%datatype, root_between(), between, MPI_INFO_NULL, &
        request(1))
    case (LARGE)
      call MPI_Bcast(a, int(a_%count, MPI_COUNT_KIND), a_%datatype, root_between(), between)
    end select
    call finish()
  end subroutine

  subroutine gather_between(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Gather(a, a_%count, a_%datatype, b, b_%count, b_%datatype, root_between(), between)
    case (NONBLOCKING)
      call MPI_Igather(a, a_%count, a_%datatype, b, b_%count, b_%datatype, root_between(), &
        between, request(1))
    case (PERSISTENT)
      call MPI_Gather_init(a, a_%count, a_%datatype, b, b_%count, b_%datatype, root_between(), &
        between, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Gather(a, int(a_%count, MPI_COUNT_KIND), a_%datatype, b, int(b_%count, &
        MPI_COUNT_KIND), b_%datatype, root_between(), between)
    end select
    call finish()
  end subroutine

  subroutine scatter_between(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Scatter(a, a_%count, a_%datatype, b, b_%count, b_%datatype, root_between(), &
        between)
    case (NONBLOCKING)
      call MPI_Iscatter(a, a_%count, a_%datatype, b, b_%count, b_%datatype, root_between(), &
        between, request(1))
    case (PERSISTENT)
      call MPI_Scatter_init(a, a_%count, a_%datatype, b, b_%count, b_%datatype, root_between(), &
        between, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Scatter(a, int(a_%count, MPI_COUNT_KIND), a_%datatype, b, int(b_%count, &
        MPI_COUNT_KIND), b_%datatype, root_between(), between)
    end select
    call finish()
  end subroutine

  subroutine allgather_between(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Allgather(a, a_%count, a_%datatype, b, b_%count, b_%datatype, between)
    case (NONBLOCKING)
      call MPI_Iallgather(a, a_%count, a_%datatype, b, b_%count, b_%datatype, between, request(1))
    case (PERSISTENT)
      call MPI_Allgather_init(a, a_%count, a_%datatype, b, b_%count, b_%datatype, between, &
        MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Allgather(a, int(a_%count, MPI_COUNT_KIND), a_%datatype, b, int(b_%count, &
        MPI_COUNT_KIND), b_%datatype, between)
    end select
    call finish()
  end subroutine

  subroutine alltoall_between(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Alltoall(a, a_%count, a_%datatype, b, b_%count, b_%datatype, between)
    case (NONBLOCKING)
      call MPI_Ialltoall(a, a_%count, a_%datatype, b, b_%count, b_%datatype, between, request(1))
    case (PERSISTENT)
      call MPI_Alltoall_init(a, a_%count, a_%datatype, b, b_%count, b_%datatype, between, &
        MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Alltoall(a, int(a_%count, MPI_COUNT_KIND), a_%datatype, b, int(b_%count, &
        MPI_COUNT_KIND), b_%datatype, between)
    end select
    call finish()
  end subroutine

  subroutine reduce_between(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Reduce(a, b, a_%count, a_%datatype, op, root_between(), between)
    case (NONBLOCKING)
      call MPI_Ireduce(a, b, a_%count, a_%datatype, op, root_between(), between, request(1))
    case (PERSISTENT)
      call MPI_Reduce_init(a, b, a_%count, a_%datatype, op, root_between(), between, &
        MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Reduce(a, b, int(a_%count, MPI_COUNT_KIND), a_%datatype, op, root_between(), &
        between)
    end select
    call finish()
  end subroutine

  subroutine allreduce_between(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Allreduce(a, b, a_%count, a_%datatype, op, between)
    case (NONBLOCKING)
      call MPI_Iallreduce(a, b, a_%count, a_%datatype, op, between, request(1))
    case (PERSISTENT)
      call MPI_Allreduce_init(a, b, a_%count, a_%datatype, op, between, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Allreduce(a, b, int(a_%count, MPI_COUNT_KIND), a_%datatype, op, between)
    end select
    call finish()
  end subroutine

  subroutine reduce_scatter_block_between(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    select case (mode)
    case (BLOCKING)
      call MPI_Reduce_scatter_block(a, b, a_%count / ranks * there, a_%datatype, op, between)
    case (NONBLOCKING)
      call MPI_Ireduce_scatter_block(a, b, a_%count / ranks * there, a_%datatype, op, between, &
        request(1))
    case (PERSISTENT)
      call MPI_Reduce_scatter_block_init(a, b, a_%count / ranks * there, a_%datatype, op, &
        between, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Reduce_scatter_block(a, b, int(a_%count / ranks * there, MPI_COUNT_KIND), &
        a_%datatype, op, between)
    end select
    call finish()
  end subroutine

  subroutine alltoallv_between(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    integer :: i
    call make_lists([(i, i=1, there)], [(i, i=1, there)], .false.)
    a_counts = a_%count
    b_counts = b_%count
    many_a = a_counts
    many_b = b_counts
    select case (mode)
    case (BLOCKING)
      call MPI_Alltoallv(a, a_counts, a_places, a_%datatype, b, b_counts, b_places, b_%datatype, &
        between)
    case (NONBLOCKING)
      call MPI_Ialltoallv(a, a_counts, a_places, a_%datatype, b, b_counts, b_places, &
        b_%datatype, between, request(1))
    case (PERSISTENT)
      call MPI_Alltoallv_init(a, a_counts, a_places, a_%datatype, b, b_counts, b_places, &
        b_%datatype, between, MPI_INFO_NULL, request(1))
    case (LARGE)
      call MPI_Alltoallv(a, many_a, far_a, a_%datatype, b, many_b, far_b, b_%datatype, between)
    end select
    call finish()
  end subroutine

  ! The root has its data in place.
  subroutine rooted_in_place(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    if (rank == root) then
      call MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, b_%count, b_%datatype, root, comm)
      call MPI_Scatter(b, b_%count, b_%datatype, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, root, comm)
      call MPI_Reduce(MPI_IN_PLACE, b, b_%count, b_%datatype, MPI_BXOR, root, comm)
    else
      ! Arguments that only the root uses have no meaning here.
      call MPI_Gather(a, a_%count, a_%datatype, b, -1, MPI_DATATYPE_NULL, root, comm)
      call MPI_Scatter(b, -1, MPI_DATATYPE_NULL, a, a_%count, a_%datatype, root, comm)
      call MPI_Reduce(a, b, a_%count, a_%datatype, MPI_BXOR, root, comm)
    end if
  end subroutine

  subroutine locally(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    call MPI_Reduce_local(a, b, a_%count, a_%datatype, op)
    call MPI_Reduce_local(a, b, int(a_%count, MPI_COUNT_KIND), a_%datatype, op)
    call MPI_Reduce_local(a, b, a_%count, a_%datatype, op)
  end subroutine

  function everyone() result(all)
    integer :: all(ranks), i
    all = [(i, i=0, ranks - 1)]
  end function

  ! The neighbours in the direction of the messages or in the other one.
  function neighbours(direction) result(all)
    integer, intent(in) :: direction
    integer :: all(3)
    all = modulo(rank + direction * [0, 1, 2], ranks)
  end function

  integer function root_between()
    root_between = 0
    if (mod(rank, 2) == mod(root, 2)) then
      root_between = MPI_PROC_NULL
      if (rank / 2 == 0) root_between = MPI_ROOT
    end if
  end function
end module

program test
  use collectives
  implicit none
  integer :: i, one(3)
  call start_sections()
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Op_create(xor_of_program, .true., op_of_program)
  one = 1
  call MPI_Dist_graph_create_adjacent(comm, 3, neighbours(-1), one, 3, neighbours(1), one, &
                                      MPI_INFO_NULL, .false., graph)
  if (ranks > 1) then
    block
      type(MPI_Comm) :: half
      call MPI_Comm_split(comm, mod(rank, 2), 0, half)
      call MPI_Intercomm_create(half, 0, comm, mod(rank + 1, 2), 5, between)
      call MPI_Comm_size(between, here)
      call MPI_Comm_remote_size(between, there)
      call MPI_Comm_free(half)
    end block
  end if
  do i = 1, 12
    mode = 1 + mod(i, 4)
    root = pick(ranks, SHARED) - 1

    call compare('bcast', bcast, 1, 1, 4, .false.)
    call compare('gather', gather, 1, ranks, 4, .false.)
    call compare('scatter', scatter, ranks, 1, 4, .false.)
    call compare('allgather', allgather, 1, ranks, 4, .false.)
    call compare('alltoall', alltoall, ranks, ranks, 4, .false.)
    call compare('gatherv', gatherv, 1, ranks, 4, .false.)
    call compare('scatterv', scatterv, ranks, 1, 4, .false.)
    call compare('allgatherv', allgatherv, 1, ranks, 4, .false.)
    call compare('alltoallv', alltoallv, ranks, ranks, 4, .false.)
    call compare('alltoallw', alltoallw, ranks, ranks, 4, .false.)
    call compare('allgather in place', allgather_in_place, 1, ranks, 4, .false.)
    call compare('alltoall in place', alltoall_in_place, 1, ranks, 4, .true.)
    call compare('alltoallv in place', alltoallv_in_place, 1, ranks, 4, .true.)
    call compare('alltoallw in place', alltoallw_in_place, 1, ranks, 4, .true.)
    call compare('neighbor allgather', neighbor_allgather, 1, 3, 4, .false.)
    call compare('neighbor alltoall', neighbor_alltoall, 3, 3, 4, .false.)
    call compare('neighbor allgatherv', neighbor_allgatherv, 1, 3, 4, .false.)
    call compare('neighbor alltoallv', neighbor_alltoallv, 3, 3, 4, .false.)
    call compare('neighbor alltoallw', neighbor_alltoallw, 3, 3, 4, .false.)
    call compare('allgatherv in place', allgatherv_in_place, 1, ranks, 4, .false.)
    call compare('rooted in place', rooted_in_place, 1, ranks, 1, .true., INTEGERS)
    if (ranks > 1) then
      call compare('bcast between', bcast_between, 1, 1, 4, .false.)
      call compare('gather between', gather_between, 1, ranks, 4, .false.)
      call compare('scatter between', scatter_between, ranks, 1, 4, .false.)
      call compare('allgather between', allgather_between, 1, ranks, 4, .false.)
      call compare('alltoall between', alltoall_between, ranks, ranks, 4, .false.)
      call compare('alltoallv between', alltoallv_between, ranks, ranks, 4, .false.)
    end if
    ! Operations of the program take any datatype, predefined ones their own.
    op = op_of_program
    if (mod(i, 3) == 0) op = MPI_BXOR
    call compare('reduce', reduce, 1, 1, layouts(), .true., INTEGERS)
    call compare('allreduce', allreduce, 1, 1, layouts(), .true., INTEGERS)
    call compare('scan', scan, 1, 1, layouts(), .true., INTEGERS)
    call compare('exscan', exscan, 1, 1, layouts(), .true., INTEGERS)
    call compare('reduce scatter block', reduce_scatter_block, ranks, 1, layouts(), .true., INTEGERS)
    call compare('reduce scatter', reduce_scatter, ranks, 1, layouts(), .true., INTEGERS)
    call compare('allreduce in place', allreduce_in_place, 1, 1, layouts(), .true., INTEGERS)
    call compare('scan in place', scan_in_place, 1, 1, layouts(), .true., INTEGERS)
    call compare('exscan in place', exscan_in_place, 1, 1, layouts(), .true., INTEGERS)
    call compare('reduce scatter block in place', reduce_scatter_block_in_place, ranks, ranks, layouts(), .true., INTEGERS)
    call compare('reduce scatter in place', reduce_scatter_in_place, ranks, ranks, layouts(), .true., INTEGERS)
    call compare('locally', locally, 1, 1, layouts(), .true., INTEGERS)
    if (ranks > 1) then
      call compare('reduce between', reduce_between, 1, 1, layouts(), .true., INTEGERS)
      call compare('allreduce between', allreduce_between, 1, 1, layouts(), .true., INTEGERS)
      call compare('reduce scatter block between', reduce_scatter_block_between, ranks, 1, layouts(), .true., INTEGERS)
    end if
  end do
  call check(changes > 150, 'most collectives have data')
  call end_sections()
contains
  integer function layouts()
    layouts = merge(1, 4, op == MPI_BXOR)
  end function
end program
