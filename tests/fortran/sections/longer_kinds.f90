! ranks: 1
! REALs of a longer kind than the datatype are refused, as with -fdefault-real-8 and the modules for
! REALs of 4 bytes. Empty messages may come from every array.
program longer_kinds
  use mpi_f08
  implicit none
  integer :: ierror, class, n = 0
  real(8) :: x(6), y(6)
  complex(8) :: z(2)
  complex(4) :: short(2), other(2)
  call MPI_Init()
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  x = 1
  y = 2
  z = (3, 4)
  call MPI_Sendrecv(x, 2, MPI_DOUBLE_PRECISION, 0, 1, y, 2, MPI_DOUBLE_PRECISION, 0, 1, MPI_COMM_WORLD, &
                    MPI_STATUS_IGNORE, ierror)
  call refused(.false.)
  call MPI_Bcast(x, 6, MPI_REAL, 0, MPI_COMM_WORLD, ierror)
  call refused(.true.)
  call MPI_Bcast(x(::2), 3, MPI_REAL, 0, MPI_COMM_WORLD, ierror)
  call refused(.true.)
  y = 2
  call MPI_Allreduce(x, y, 6, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, ierror)
  call refused(.true.)
  if (any(nint(y) /= 2)) error stop 'the result of a refused call'
  call MPI_Bcast(z, 2, MPI_COMPLEX, 0, MPI_COMM_WORLD, ierror)
  call refused(.true.)
  call PMPI_Bcast(x(1), 1, MPI_REAL, 0, MPI_COMM_WORLD, ierror)
  call refused(.true.)
  call MPI_Bcast(x, 0, MPI_REAL, 0, MPI_COMM_WORLD, ierror)
  call refused(.false.)
  call MPI_Bcast(x, 6, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, ierror)
  call refused(.false.)
  call MPI_Bcast(z, 2, MPI_DOUBLE_COMPLEX, 0, MPI_COMM_WORLD, ierror)
  call refused(.false.)
  ! A COMPLEX is two REALs, and INTEGERs are none.
  short = (5, 6)
  call MPI_Sendrecv(short, 4, MPI_REAL, 0, 1, other, 2, MPI_COMPLEX, 0, 1, MPI_COMM_WORLD, &
                    MPI_STATUS_IGNORE, ierror)
  call refused(.false.)
  if (any(other /= short)) error stop 'COMPLEX as REALs'
  call MPI_Bcast([1_8, 2_8], 4, MPI_REAL, 0, MPI_COMM_WORLD, ierror)
  call refused(.false.)
  call MPI_Finalize()
  print '(a)', 'ok'
contains
  subroutine refused(is)
    logical, intent(in) :: is
    n = n + 1
    class = MPI_SUCCESS
    if (ierror /= MPI_SUCCESS) call MPI_Error_class(ierror, class)
    if (class /= merge(MPI_ERR_TYPE, MPI_SUCCESS, is)) then
      print *, 'call', n, ' has the error', ierror
      error stop 'wrong'
    end if
  end subroutine
end program
