! ranks: 1
! not for flang: it refuses a procedure with BIND(C) of the name that a used module has without
! A tool in Fortran and one in C (f08_tools_part.c), which count the calls of a program with
! mpi_f08: each call once, whether its buffer has gaps or not.
module tool
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  integer :: sends = 0, barriers = 0, old_sends = 0
end module

subroutine send_of_tool(buf, count, datatype, dest, tag, comm, ierror) bind(c, name='mpi_send_f08ts_')
  use tool
  type(*), dimension(..), intent(in) :: buf
  integer, intent(in) :: count, dest, tag
  type(MPI_Datatype), intent(in) :: datatype
  type(MPI_Comm), intent(in) :: comm
  integer, optional, intent(out) :: ierror
  integer :: code
  sends = sends + 1
  call PMPI_Send(buf, count, datatype, dest, tag, comm, code)
  if (present(ierror)) ierror = code
end subroutine

subroutine barrier_of_tool(comm, ierror) bind(c, name='mpi_barrier_f08_')
  use tool
  type(MPI_Comm), intent(in) :: comm
  integer, optional, intent(out) :: ierror
  integer :: code
  barriers = barriers + 1
  call PMPI_Barrier(comm, code)
  if (present(ierror)) ierror = code
end subroutine

! The same tool serves mpif.h and module mpi.
subroutine mpi_send(buf, count, datatype, dest, tag, comm, ierror)
  use tool, only: old_sends
  integer :: buf(*), count, datatype, dest, tag, comm, ierror
  old_sends = old_sends + 1
  call pmpi_send(buf, count, datatype, dest, tag, comm, ierror)
end subroutine

subroutine mpi_allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, ierror)
  use tool, only: old_sends
  integer :: sendbuf(*), sendcount, sendtype, recvbuf(*), recvcount, recvtype, comm, ierror
  old_sends = old_sends + 1
  call pmpi_allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, ierror)
end subroutine

program test
  use tool
  implicit none
  interface
    integer(c_int) function calls_in_c(of) bind(c)
      import :: c_int
      integer(c_int), value :: of
    end function
  end interface
  integer :: numbers(20), more(20), i, code, faults
  type(MPI_Request) :: requests(3)
  faults = 0
  call MPI_Init()
  numbers = [(i, i=1, 20)]
  more = 0
  call MPI_Irecv(more(1:10), 10, MPI_INTEGER, 0, 0, MPI_COMM_SELF, requests(1))
  call MPI_Irecv(more(12:20:2), 5, MPI_INTEGER, 0, 1, MPI_COMM_SELF, requests(2))
  call MPI_Irecv(more(11:19:4), 3_MPI_COUNT_KIND, MPI_INTEGER, 0, 2, MPI_COMM_SELF, requests(3))
  call MPI_Send(numbers, 10, MPI_INTEGER, 0, 0, MPI_COMM_SELF)
  call MPI_Send(numbers(1:9:2), 5, MPI_INTEGER, 0, 1, MPI_COMM_SELF, code)
  call MPI_Ssend(numbers(3:1:-1), 3, MPI_INTEGER, 0, 2, MPI_COMM_SELF)
  call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE)
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Barrier(MPI_COMM_SELF, code)
  ! A copy, and completion functions that look at it.
  call MPI_Iallreduce(numbers(::2), more(::2), 10, MPI_INTEGER, MPI_SUM, MPI_COMM_SELF, requests(1))
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
  call MPI_Allgather(numbers, 4, MPI_INTEGER, more(17:20), 4, MPI_INTEGER, MPI_COMM_SELF)
  call check(all(more(17:20) == numbers(:4)), 0, 0, 'MPI_Allgather')
  more(17:20) = numbers(17:20)
  call check(all(more(::2) == numbers(::2)) .and. more(12) == 1, 0, 0, 'data')
  call check(code == MPI_SUCCESS, sends, 2, 'MPI_Send of the Fortran tool')
  call check(.true., barriers, 2, 'MPI_Barrier of the Fortran tool')
  call check(.true., old_sends, 0, 'the old interfaces')
  call check(.true., calls_in_c(0), 0, 'MPI_Send in C')
  call check(.true., calls_in_c(1), 2, 'MPI_Irecv in C')
  call check(.true., calls_in_c(2), 1, 'MPI_Irecv_c in C')
  call check(.true., calls_in_c(3), 1, 'MPI_Ssend in C')
  call check(.true., calls_in_c(4), 1, 'MPI_Iallreduce in C')
  call check(.true., calls_in_c(5), 1, 'MPI_Wait in C')
  call check(.true., calls_in_c(6), 0, 'other functions in C')
  ! Without the tools.
  call PMPI_Irecv(more(12:20:2), 5, MPI_INTEGER, 0, 1, MPI_COMM_SELF, requests(2))
  call PMPI_Ssend(numbers(1:9:2), 5, MPI_INTEGER, 0, 1, MPI_COMM_SELF)
  call PMPI_Wait(requests(2), MPI_STATUS_IGNORE)
  call check(all(more(12:20:2) == numbers(1:9:2)), calls_in_c(1) + calls_in_c(3) + calls_in_c(5), &
             4, 'PMPI')
  if (faults == 0) print '(a)', 'ok'
  call MPI_Finalize()
contains
  subroutine check(holds, calls, expected, name)
    logical, intent(in) :: holds
    integer, intent(in) :: calls, expected
    character(len=*), intent(in) :: name
    if (holds .and. calls == expected) return
    print *, name, holds, calls, expected
    faults = faults + 1
  end subroutine
end program
