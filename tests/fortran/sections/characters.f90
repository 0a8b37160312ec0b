! ranks: 1 2
! Sections of arrays of strings: each element has several bytes.
program characters
  use mpi_f08
  implicit none
  integer :: me, np
  character(len=5) :: words(6), got(6), table(3,2)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  words = ['zero ', 'one  ', 'two  ', 'three', 'four ', 'five ']
  got = '-'
  call MPI_Sendrecv(words(2::2), 15, MPI_CHARACTER, modulo(me + 1, np), 1, got(6:2:-2), 15, &
                    MPI_CHARACTER, modulo(me - 1, np), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  if (any(got /= ['-    ', 'five ', '-    ', 'three', '-    ', 'one  '])) error stop 'the words'
  table = '.....'
  if (me == 0) table(2,:) = ['alpha', 'omega']
  call MPI_Bcast(table(2,:), 10, MPI_CHARACTER, 0, MPI_COMM_WORLD)
  if (any(table(2,:) /= ['alpha', 'omega']) .or. any(table(1:3:2,:) /= '.....')) &
    error stop 'the table'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
