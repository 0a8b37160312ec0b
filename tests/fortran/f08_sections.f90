! ranks: 1 3
! Array sections as buffers, in direct calls, which all compilers take.

program sections
  use mpi_f08
  implicit none
  type(MPI_Status) :: status
  type(MPI_Request) :: requests(2)
  integer :: rank, size, ierror, i, j, a(10,8), b(10,8), n
  integer(MPI_COUNT_KIND) :: large
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  do j=1,8; do i=1,10; a(i,j)=100*i+j; end do; end do
  b = 0
  if (.not. MPI_SUBARRAYS_SUPPORTED) error stop 7
  ! strided section to oneself
  call MPI_Irecv(b(1:10:3,8:2:-2), 16, MPI_INTEGER, rank, 1, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(a(2:8:2,1:4), 16, MPI_INTEGER, rank, 1, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  if (any(b(1:10:3,8:2:-2) /= a(2:8:2,1:4))) error stop 1
  if (sum(b) /= sum(a(2:8:2,1:4))) error stop 2
  if (any(requests /= MPI_REQUEST_NULL)) error stop 3
  b = 0; large = 5
  call MPI_Sendrecv(a(2:8:2,1:4), large, MPI_INTEGER, rank, 1, b(1:10:3,8:2:-2), 16_MPI_COUNT_KIND, &
    MPI_INTEGER, rank, 1, MPI_COMM_WORLD, status)
  call MPI_Get_count(status, MPI_INTEGER, n)
  if (n /= 5) error stop 4
  if (any(b(1:10:3,8) /= a(2:8:2,1)) .or. b(1,6) /= a(2,2) .or. sum(b) /= sum(a(2:8:2,1)) + a(2,2)) error stop 5
  b = 0
  call MPI_Allreduce(a(::2,::3), b(2::2,:3), 15, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (any(b(2::2,:3) /= size*a(::2,::3)) .or. sum(b) /= size*sum(a(::2,::3))) error stop 6
  b = 0
  call MPI_Iallreduce(a(::2,::3), b(2::2,:3), 15, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(1))
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
  if (any(b(2::2,:3) /= size*a(::2,::3)) .or. sum(b) /= size*sum(a(::2,::3))) error stop 8
  call MPI_Finalize()
  if (rank == 0) print '(a)', 'ok'
end program sections
