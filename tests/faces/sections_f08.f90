! ranks: 2
! Array sections as buffers of nonblocking calls, which module mpi_f08 of another MPI passes as array
! descriptors.
program sections_f08
  use mpi_f08
  implicit none
  integer :: rank, i, code
  integer, asynchronous :: a(8, 4)
  type(MPI_Request) :: requests(3)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  a = 0
  a(:, 1) = [(i, i = 1, 8)]
  ! A datatype describes these sections.
  call MPI_Irecv(a(8:2:-2, 2), 4, MPI_INTEGER, 1 - rank, 0, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(a(1::2, 1), 4, MPI_INTEGER, 1 - rank, 0, MPI_COMM_WORLD, requests(2))
  ! The library works on a copy of this one.
  call MPI_Iallreduce(a(1::2, 1), a(1::2, 3), 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(3))
  call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE)
  call check(all(a(:, 2) == [0, 7, 0, 5, 0, 3, 0, 1]), 'a message')
  call check(all(a(:, 3) == [2, 0, 6, 0, 10, 0, 14, 0]), 'a reduction')
  do i = 1, 3
    call check(requests(i) == MPI_REQUEST_NULL, 'a request')
  end do
  call unknown_size(a)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  call MPI_Send(a(1::2, 1), 5, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, code)
  call check(code /= MPI_SUCCESS, 'an access behind the last element')
  call MPI_Finalize()
  if (rank == 0) print '(a)', 'ok'
contains
  subroutine unknown_size(x)
    integer, asynchronous :: x(8, *)
    call MPI_Bcast(x, 16, MPI_INTEGER, 0, MPI_COMM_WORLD)
    call check(x(8, 1) == 8, 'an array of unknown size')
  end subroutine

  subroutine check(is_right, what)
    logical :: is_right
    character(len=*) :: what
    if (is_right) return
    print '(a,i0,2a)', 'rank ', rank, ': wrong: ', what
    error stop 1
  end subroutine
end program
