! ranks: 1 2
! With mpi_f08, arrays of strings: arguments of spawned programs, which are this program.
program f08_spawned
  use mpi_f08
  implicit none
  type(MPI_Comm) :: parent, inter
  integer :: rank, ranks, codes(4), n, value, faults
  character(len=200) :: me, arguments(3), several(2, 3)
  character(len=20) :: argument
  logical :: is_wrong
  faults = 0
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call MPI_Comm_get_parent(parent)
  if (parent == MPI_COMM_NULL) then
    call get_command_argument(0, me)
    arguments = ['first ', ' a b  ', '      ']
    codes = -1
    call MPI_Comm_spawn(me, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, codes)
    if (any(codes(:2) /= MPI_SUCCESS) .or. any(codes(3:) /= -1)) faults = 1
    call receive(22, 2)
    several(1, :) = ['x ', 'y ', '  ']
    several(2, :) = ['z ', '  ', '  ']
    call MPI_Comm_spawn_multiple(2, [me, me], several, [1, 1], [MPI_INFO_NULL, MPI_INFO_NULL], 0, &
                                 MPI_COMM_WORLD, inter, MPI_ERRCODES_IGNORE)
    call receive(21, 1)
    call receive(11, 1, 1)
    call MPI_Comm_disconnect(inter)
    call MPI_Comm_spawn(me, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, &
                        MPI_ERRCODES_IGNORE)
    call receive(0, 1)
    if (rank == 0 .and. faults == 0) print '(a)', 'ok'
  else
    ! The number of arguments, and whether they are right.
    n = command_argument_count()
    value = n * 10 + n
    if (n == 2) then
      call get_command_argument(2, argument)
      is_wrong = argument /= 'a b' .and. argument /= 'y'
      if (argument == 'y') value = 21
      if (is_wrong) value = -1
    end if
    if (rank == 0 .or. ranks > 1) call MPI_Send(value, 1, MPI_INTEGER, 0, rank, parent)
    call MPI_Comm_disconnect(parent)
  end if
  call MPI_Finalize()
contains
  ! The same value from the first `count` processes, or from the process `from`.
  subroutine receive(expected, count, from)
    integer, intent(in) :: expected, count
    integer, intent(in), optional :: from
    integer :: i, got
    if (rank == 0) then
      do i = 0, count - 1
        got = -5
        if (present(from)) then
          call MPI_Recv(got, 1, MPI_INTEGER, from, from, inter, MPI_STATUS_IGNORE)
        else
          call MPI_Recv(got, 1, MPI_INTEGER, i, i, inter, MPI_STATUS_IGNORE)
        end if
        if (got /= expected) then
          print *, 'expected', expected, 'got', got
          faults = faults + 1
        end if
      end do
    end if
    if (expected == 22 .or. expected == 0) call MPI_Comm_disconnect(inter)
  end subroutine
end program
