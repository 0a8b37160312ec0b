! ranks: 1 2 4
! One epoch for all targets, with flushes in between.
program lock_all
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: me, np, r, i
  integer, pointer, asynchronous :: slots(:)
  integer, asynchronous :: value, back
  type(c_ptr) :: memory
  type(MPI_Win) :: win
  integer(MPI_ADDRESS_KIND) :: at
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  call MPI_Win_allocate(int(4 * np, MPI_ADDRESS_KIND), 4, MPI_INFO_NULL, MPI_COMM_WORLD, &
                        memory, win)
  call c_f_pointer(memory, slots, [np])
  slots = -1
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Win_lock_all(0, win)
  at = me
  do r = 0, np - 1
    value = 100 * me + r
    call MPI_Put(value, 1, MPI_INTEGER, r, at, 1, MPI_INTEGER, win)
    call MPI_Win_flush(r, win)
    back = 0
    call MPI_Get(back, 1, MPI_INTEGER, r, at, 1, MPI_INTEGER, win)
    call MPI_Win_flush_local(r, win)
    if (back /= value) error stop 'what was put'
  end do
  call MPI_Win_flush_all(win)
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Win_sync(win)
  if (any(slots /= [(100 * i + me, i=0, np-1)])) error stop 'what the others put'
  call MPI_Win_unlock_all(win)
  call MPI_Win_free(win)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
