! ranks: 1 2
! options: -Werror
! Arguments by keyword: the names are those of the standard in both modules.
program keywords
  use mpi_f08
  implicit none
  integer :: me, np, to, from, i, n, indices(2), starts(2), edges(2), code
  integer, asynchronous :: a(4), b(4)
  logical :: flag
  type(MPI_Comm) :: ring
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: status
  call MPI_Init()
  call MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=me)
  call MPI_Comm_size(comm=MPI_COMM_WORLD, size=np)
  to = modulo(me + 1, np)
  from = modulo(me - 1, np)
  a = me
  b = -1
  call MPI_Precv_init(buf=b, partitions=2, count=2_MPI_COUNT_KIND, datatype=MPI_INTEGER, &
                      source=from, tag=1, comm=MPI_COMM_WORLD, info=MPI_INFO_NULL, &
                      request=requests(1))
  call MPI_Psend_init(buf=a, partitions=2, count=2_MPI_COUNT_KIND, datatype=MPI_INTEGER, &
                      dest=to, tag=1, comm=MPI_COMM_WORLD, info=MPI_INFO_NULL, &
                      request=requests(2))
  call MPI_Startall(count=2, array_of_requests=requests)
  call MPI_Pready_range(partition_low=0, partition_high=0, request=requests(2))
  call MPI_Pready_list(length=1, array_of_partitions=[1], request=requests(2))
  flag = .false.
  do while (.not. flag)
    call MPI_Request_get_status_any(count=2, array_of_requests=requests, index=i, flag=flag, &
                                    status=status)
  end do
  if (i < 1 .or. i > 2) error stop 'the index of a complete request'
  call MPI_Waitany(count=2, array_of_requests=requests, index=i, status=status)
  if (i < 1 .or. i > 2) error stop 'the index of MPI_Waitany'
  flag = .false.
  do while (.not. flag)
    call MPI_Testany(count=1, array_of_requests=requests(3-i:3-i), index=n, flag=flag, &
                     status=status)
  end do
  if (n /= 1) error stop 'the index of MPI_Testany'
  call MPI_Request_get_status_some(incount=2, array_of_requests=requests, outcount=n, &
                                   array_of_indices=indices, array_of_statuses=MPI_STATUSES_IGNORE)
  if (n /= MPI_UNDEFINED) error stop 'inactive requests'
  if (any(b /= from)) error stop 'the partitions'
  call MPI_Request_free(request=requests(1))
  call MPI_Request_free(request=requests(2))
  call MPI_Status_set_error(status=status, err=MPI_ERR_TAG)
  call MPI_Status_get_error(status=status, err=code)
  if (code /= MPI_ERR_TAG .or. status%MPI_ERROR /= code) error stop 'the error of a status'
  ! Each node has one neighbour, the next one.
  call MPI_Graph_create(comm_old=MPI_COMM_WORLD, nnodes=np, index=[(i, i=1, np)], &
                        edges=[(modulo(i, np), i=1, np)], reorder=.false., comm_graph=ring)
  call MPI_Graph_get(comm=ring, maxindex=np, maxedges=np, index=starts, edges=edges)
  if (any(starts(:np) /= [(i, i=1, np)])) error stop 'the graph'
  call MPI_Graph_map(comm=ring, nnodes=np, index=starts, edges=edges, newrank=n)
  if (n < 0 .or. n >= np) error stop 'the rank in the graph'
  call MPI_Comm_free(comm=ring)
  call old_module()
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
contains
  subroutine old_module()
    use mpi, only: MPI_Irecv, MPI_Send, MPI_Waitany, MPI_Testany, MPI_Status_set_error, &
      MPI_Request_get_status_any, MPI_REQUEST_NULL_ => MPI_REQUEST_NULL, &
      MPI_COMM_SELF_ => MPI_COMM_SELF, MPI_INTEGER_ => MPI_INTEGER, MPI_STATUS_SIZE
    integer :: request(1), state(MPI_STATUS_SIZE), ierror
    call MPI_Irecv(buf=b, count=4, datatype=MPI_INTEGER_, source=0, tag=2, comm=MPI_COMM_SELF_, &
                   request=request(1), ierror=ierror)
    call MPI_Send(buf=a, count=4, datatype=MPI_INTEGER_, dest=0, tag=2, comm=MPI_COMM_SELF_, &
                  ierror=ierror)
    flag = .false.
    do while (.not. flag)
      call MPI_Request_get_status_any(count=1, array_of_requests=request, index=i, flag=flag, &
                                      status=state, ierror=ierror)
    end do
    if (i /= 1) error stop 'the index with module mpi'
    call MPI_Waitany(count=1, array_of_requests=request, index=i, status=state, ierror=ierror)
    if (i /= 1 .or. request(1) /= MPI_REQUEST_NULL_) error stop 'MPI_Waitany with module mpi'
    call MPI_Testany(count=1, array_of_requests=request, index=i, flag=flag, status=state, &
                     ierror=ierror)
    if (i /= MPI_UNDEFINED .or. .not. flag) error stop 'MPI_Testany with module mpi'
    call MPI_Status_set_error(status=state, err=MPI_ERR_COUNT, ierror=ierror)
    if (state(3) /= MPI_ERR_COUNT) error stop 'the error with module mpi'
  end subroutine
end program
