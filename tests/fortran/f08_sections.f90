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
  call many_reductions()
  call free_of_open_request()
  call dummy_of_any_type(a(:,1))
  call MPI_Finalize()
  if (rank == 0) print '(a)', 'ok'
contains
  ! More open operations on copies than small tables have room for.
  subroutine many_reductions()
    integer, parameter :: most = 3000
    integer, allocatable, asynchronous :: from(:,:), to(:,:)
    type(MPI_Request) :: all(most)
    integer :: at
    allocate(from(6,most), to(6,most))
    from = 1
    to = 0
    do at = 1, most
      call MPI_Iallreduce(from(::2,at), to(::2,at), 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, all(at))
    end do
    call MPI_Waitall(most, all, MPI_STATUSES_IGNORE)
    if (any(to(::2,:) /= size) .or. any(to(2::2,:) /= 0)) error stop 9
  end subroutine many_reductions

  ! A request whose operation works on a copy cannot be freed before it is complete.
  subroutine free_of_open_request()
    integer, asynchronous :: to(9)
    type(MPI_Datatype) :: gaps
    type(MPI_Request) :: request
    integer :: code, class
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
    call MPI_Type_vector(2, 1, 2, MPI_INTEGER, gaps)
    call MPI_Type_commit(gaps)
    to = 0
    call MPI_Irecv(to(1:9:2), 1, gaps, rank, 5, MPI_COMM_WORLD, request)
    call MPI_Request_free(request, code)
    call MPI_Error_class(code, class)
    if (class /= MPI_ERR_REQUEST) error stop 10
    call MPI_Send([3, 4], 2, MPI_INTEGER, rank, 5, MPI_COMM_WORLD)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    if (any(to /= [3, 0, 0, 0, 4, 0, 0, 0, 0])) error stop 11
    call MPI_Type_free(gaps)
  end subroutine free_of_open_request

  ! GNU Fortran 12 describes the section wrongly: an error, but no wrong data.
  subroutine dummy_of_any_type(x)
    class(*), intent(in) :: x(:)
    integer :: to(4), code
    call MPI_Sendrecv(x(2::3), 3, MPI_INTEGER, rank, 0, to, 4, MPI_INTEGER, rank, 0, MPI_COMM_WORLD, &
        MPI_STATUS_IGNORE, code)
    if (code == MPI_SUCCESS) then
      if (any(to(:3) /= a(2::3,1))) error stop 12
    end if
  end subroutine dummy_of_any_type
end program sections
