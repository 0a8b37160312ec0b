! ranks: 1 4
! A distributed field in one file: subarray types in the file, sections in memory.
program field_file
  use mpi_f08
  implicit none
  integer, parameter :: n = 8
  integer :: me, np, dims(2), coords(2), m(2), at(2), i, j
  integer, allocatable :: u(:,:)
  integer :: whole(n,n)
  type(MPI_Comm) :: grid
  type(MPI_File) :: file
  type(MPI_Datatype) :: part
  integer(MPI_OFFSET_KIND), parameter :: header = 16
  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  dims = 0
  call MPI_Dims_create(np, 2, dims)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.false., .false.], .false., grid)
  call MPI_Comm_rank(grid, me)
  call MPI_Cart_coords(grid, me, 2, coords)
  m = n / dims
  at = coords * m
  allocate (u(0:m(1)+1, 0:m(2)+1))
  u = -1
  u(1:m(1),1:m(2)) = reshape([((100 * (at(1) + i) + at(2) + j, i=1, m(1)), j=1, m(2))], m)
  call MPI_Type_create_subarray(2, [n, n], m, at, MPI_ORDER_FORTRAN, MPI_INTEGER, part)
  call MPI_Type_commit(part)
  call MPI_File_open(grid, 'field.dat', MPI_MODE_CREATE + MPI_MODE_RDWR + &
                     MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file)
  call MPI_File_set_view(file, header, MPI_INTEGER, part, 'native', MPI_INFO_NULL)
  call MPI_File_write_all(file, u(1:m(1),1:m(2)), product(m), MPI_INTEGER, MPI_STATUS_IGNORE)
  call MPI_File_sync(file)
  call MPI_Barrier(grid)
  call MPI_File_sync(file)
  call MPI_File_set_view(file, header, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL)
  call MPI_File_read_at_all(file, 0_MPI_OFFSET_KIND, whole, n * n, MPI_INTEGER, MPI_STATUS_IGNORE)
  if (any(whole /= reshape([((100 * i + j, i=1, n), j=1, n)], [n, n]))) error stop 'the field'
  call MPI_File_close(file)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
