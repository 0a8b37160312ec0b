! ranks: 2
! Types for kinds that a program selects by precision and range.
program create_f90
  use mpi
  implicit none
  integer, parameter :: wp = selected_real_kind(12, 200), ip = selected_int_kind(12)
  integer :: ierr, me, real_type, complex_type, integer_type, bytes, again
  real(wp) :: x(2), y(2)
  complex(wp) :: z, w
  integer(ip) :: i, total
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Type_create_f90_real(12, 200, real_type, ierr)
  call MPI_Type_create_f90_complex(12, MPI_UNDEFINED, complex_type, ierr)
  call MPI_Type_create_f90_integer(12, integer_type, ierr)
  call MPI_Type_create_f90_real(12, 200, again, ierr)
  if (again /= real_type) error stop 'two types for one kind'
  call MPI_Type_size(real_type, bytes, ierr)
  if (bytes * 8 /= storage_size(x)) error stop 'the size of the real'
  call MPI_Type_size(integer_type, bytes, ierr)
  if (bytes * 8 /= storage_size(i)) error stop 'the size of the integer'
  x = [me + 1._wp / 3, -2._wp]
  call MPI_Sendrecv(x, 2, real_type, 1 - me, 1, y, 2, real_type, 1 - me, 1, MPI_COMM_WORLD, &
                    MPI_STATUS_IGNORE, ierr)
  if (any(y /= [1 - me + 1._wp / 3, -2._wp])) error stop 'the reals'
  z = cmplx(me, 1, wp)
  call MPI_Allreduce(z, w, 1, complex_type, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (w /= (1._wp, 2._wp)) error stop 'the complex sum'
  i = 3000000000_ip + me
  call MPI_Allreduce(i, total, 1, integer_type, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (total /= 6000000001_ip) error stop 'the integers'
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
