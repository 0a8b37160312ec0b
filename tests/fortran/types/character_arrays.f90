! ranks: 2
! Arrays of strings, whole and in parts.
program strings
  use mpi
  implicit none
  character(len=9) :: names(4), got(4)
  character(len=:), allocatable :: text
  integer :: ierr, me, first_letters, n, status(MPI_STATUS_SIZE)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  names = [character(len=9) :: 'hydrogen', 'helium', 'lithium', 'beryllium']
  got = repeat('-', 9)
  if (me == 0) then
    call MPI_Send(names, 4 * len(names), MPI_CHARACTER, 1, 1, MPI_COMM_WORLD, ierr)
    call MPI_Type_vector(4, 2, len(names), MPI_CHARACTER, first_letters, ierr)
    call MPI_Type_commit(first_letters, ierr)
    call MPI_Send(names, 1, first_letters, 1, 2, MPI_COMM_WORLD, ierr)
    call MPI_Send(names(3)(2:4), 3, MPI_CHARACTER, 1, 3, MPI_COMM_WORLD, ierr)
    call MPI_Send('of any length', 13, MPI_CHARACTER, 1, 4, MPI_COMM_WORLD, ierr)
  else
    call MPI_Recv(got, 4 * len(got), MPI_CHARACTER, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    if (any(got /= names)) error stop 'the names'
    got = ''
    call MPI_Recv(got(2), 8, MPI_CHARACTER, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    if (got(2) /= 'hyhelibe' .or. got(1) /= '' .or. got(3) /= '') error stop 'the letters'
    call MPI_Recv(got(4)(7:9), 3, MPI_CHARACTER, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    if (got(4) /= '      ith') error stop 'a substring'
    call MPI_Probe(0, 4, MPI_COMM_WORLD, status, ierr)
    call MPI_Get_count(status, MPI_CHARACTER, n, ierr)
    allocate (character(len=n) :: text)
    call MPI_Recv(text, n, MPI_CHARACTER, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    if (text /= 'of any length' .or. n /= 13) error stop 'a text of any length'
  end if
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
