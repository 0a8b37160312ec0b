! ranks: 2
! Shared memory with module mpi, whose generic interface takes a TYPE(C_PTR).
program shared_old
  use, intrinsic :: iso_c_binding
  use mpi
  implicit none
  integer :: ierr, me, win, unit
  integer(MPI_ADDRESS_KIND) :: bytes
  type(c_ptr) :: base
  integer, pointer, volatile :: table(:)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  bytes = merge(40, 0, me == 0)
  call MPI_Win_allocate_shared(bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, ierr)
  call MPI_Win_shared_query(win, 0, bytes, unit, base, ierr)
  if (bytes /= 40 .or. unit /= 4) error stop 'the table'
  call c_f_pointer(base, table, [10])
  call MPI_Win_fence(0, win, ierr)
  table(me*5+1:me*5+5) = 7 + me
  call MPI_Win_fence(0, win, ierr)
  if (any(table(:5) /= 7) .or. any(table(6:) /= 8)) error stop 'the numbers'
  call MPI_Win_free(win, ierr)
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
