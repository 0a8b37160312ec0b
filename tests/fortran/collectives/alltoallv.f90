! ranks: 1 2 4
! Particles move to the processes that own their places.
program particles
  use mpi_f08
  implicit none
  integer :: me, np, i, r, n
  integer, allocatable :: out_counts(:), in_counts(:), out_places(:), in_places(:)
  integer, allocatable :: mine(:), sorted(:), got(:)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  allocate (out_counts(np), in_counts(np), out_places(np), in_places(np))
  n = 7 + me
  mine = [(i * (me + 2), i=1, n)]
  sorted = [integer ::]
  do r = 0, np - 1
    out_counts(r+1) = count(mod(mine, np) == r)
    sorted = [sorted, pack(mine, mod(mine, np) == r)]
  end do
  call MPI_Alltoall(out_counts, 1, MPI_INTEGER, in_counts, 1, MPI_INTEGER, MPI_COMM_WORLD)
  out_places = starts(out_counts)
  in_places = starts(in_counts)
  allocate (got(sum(in_counts)))
  call MPI_Alltoallv(sorted, out_counts, out_places, MPI_INTEGER, &
                     got, in_counts, in_places, MPI_INTEGER, MPI_COMM_WORLD)
  if (any(mod(got, np) /= me)) error stop 'a particle at the wrong place'
  do r = 0, np - 1
    mine = pack([(i * (r + 2), i=1, 7 + r)], mod([(i * (r + 2), i=1, 7 + r)], np) == me)
    if (size(mine) /= in_counts(r+1)) error stop 'the number of particles'
    if (any(got(in_places(r+1)+1:in_places(r+1)+in_counts(r+1)) /= mine)) error stop 'the particles'
  end do
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
contains
  function starts(counts) result(places)
    integer, intent(in) :: counts(:)
    integer :: places(size(counts)), k
    places = [(sum(counts(:k-1)), k=1, size(counts))]
  end function
end program
