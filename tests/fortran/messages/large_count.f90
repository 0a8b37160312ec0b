! ranks: 2
! Counts of the large kind, in calls and in what they return.
program large_count
  use mpi_f08
  implicit none
  integer(MPI_COUNT_KIND) :: n, got, size, lb, extent
  integer :: me, i
  integer, allocatable :: numbers(:)
  type(MPI_Datatype) :: block
  type(MPI_Status) :: status
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  n = 1000
  allocate (numbers(n))
  if (me == 0) then
    numbers = [(3 * i, i=1, 1000)]
    call MPI_Send(numbers, n, MPI_INTEGER, 1, 1, MPI_COMM_WORLD)
  else
    numbers = 0
    call MPI_Recv(numbers, n, MPI_INTEGER, 0, 1, MPI_COMM_WORLD, status)
    call MPI_Get_count(status, MPI_INTEGER, got)
    if (got /= 1000) error stop 'the count'
    if (any(numbers /= [(3 * i, i=1, 1000)])) error stop 'the data'
  end if
  call MPI_Bcast(numbers, n, MPI_INTEGER, 0, MPI_COMM_WORLD)
  n = 3000000000_MPI_COUNT_KIND
  call MPI_Type_contiguous(n, MPI_DOUBLE_PRECISION, block)
  call MPI_Type_size(block, size)
  if (size /= 8 * n) error stop 'the size'
  call MPI_Type_get_extent(block, lb, extent)
  if (lb /= 0 .or. extent /= 8 * n) error stop 'the extent'
  call MPI_Type_size(block, i)
  if (i /= MPI_UNDEFINED) error stop 'the size as an integer'
  call MPI_Type_free(block)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
