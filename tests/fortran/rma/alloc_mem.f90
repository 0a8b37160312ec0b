! ranks: 1 2
! Memory of the library by a TYPE(C_PTR), for messages and windows.
program alloc_mem
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  integer :: me, np, i
  type(c_ptr) :: memory
  real, pointer, asynchronous :: field(:,:)
  type(MPI_Win) :: win
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  call MPI_Alloc_mem(48_MPI_ADDRESS_KIND, MPI_INFO_NULL, memory)
  if (.not. c_associated(memory)) error stop 'no memory'
  call c_f_pointer(memory, field, [3, 4])
  field = reshape([(me * 100. + i, i=1, 12)], [3, 4])
  call MPI_Win_create(field, 48_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
  call MPI_Win_fence(0, win)
  call MPI_Get(field(:,1), 3, MPI_REAL, modulo(me + 1, np), 3_MPI_ADDRESS_KIND, 3, MPI_REAL, win)
  call MPI_Win_fence(0, win)
  if (any(field(:,1) /= [(modulo(me + 1, np) * 100. + i, i=4, 6)])) error stop 'the column'
  call MPI_Win_free(win)
  call MPI_Free_mem(field)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
