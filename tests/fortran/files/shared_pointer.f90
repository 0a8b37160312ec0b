! ranks: 1 2 4
! A log that all processes write by the shared file pointer: no line is lost.
program shared_pointer
  use mpi_f08
  implicit none
  integer, parameter :: lines = 5
  integer :: me, np, k, unit, who, number, counts(0:15), ios
  character(len=12) :: line
  type(MPI_File) :: file
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  call MPI_File_open(MPI_COMM_WORLD, 'log.txt  ', MPI_MODE_CREATE + MPI_MODE_WRONLY, &
                     MPI_INFO_NULL, file)
  do k = 1, lines
    write (line, '(a,i3,a,i3,a)') 'rank', me, ' ', k, new_line('a')
    call MPI_File_write_shared(file, line, 12, MPI_CHARACTER, MPI_STATUS_IGNORE)
  end do
  call MPI_File_close(file)
  call MPI_Barrier(MPI_COMM_WORLD)
  if (me == 0) then
    counts = 0
    open (newunit=unit, file='log.txt', action='read')
    do
      read (unit, '(a)', iostat=ios) line
      if (ios /= 0) exit
      read (line(5:7), *) who
      read (line(8:11), *) number
      counts(who) = counts(who) + 1
      if (counts(who) /= number) error stop 'lines of one process are out of order'
    end do
    if (any(counts(:np-1) /= lines) .or. sum(counts) /= lines * np) error stop 'the lines'
    close (unit, status='delete')
  end if
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
