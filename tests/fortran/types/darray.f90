! ranks: 4
! A block-cyclic distribution: the parts of all processes are the whole matrix.
program distributed
  use mpi_f08
  implicit none
  integer, parameter :: n = 10, m = 6
  integer :: me, part_size, count_of_part, i, j, row, column, k
  integer :: whole(n,m)
  integer, allocatable :: own(:)
  type(MPI_Datatype) :: part
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Type_create_darray(4, me, 2, [n, m], [MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK], &
                              [2, MPI_DISTRIBUTE_DFLT_DARG], [2, 2], MPI_ORDER_FORTRAN, &
                              MPI_INTEGER, part)
  call MPI_Type_commit(part)
  call MPI_Type_size(part, part_size)
  count_of_part = part_size / 4
  whole = reshape([((100 * i + j, i=1, n), j=1, m)], [n, m])
  allocate (own(count_of_part))
  call MPI_Sendrecv(whole, 1, part, me, 1, own, count_of_part, MPI_INTEGER, me, 1, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  ! Ranks are in the order of C: the last dimension runs fastest.
  row = me / 2
  column = mod(me, 2)
  k = 0
  do j = column * 3 + 1, column * 3 + 3
    do i = 1, n
      if (mod((i - 1) / 2, 2) /= row) cycle
      k = k + 1
      if (own(k) /= 100 * i + j) error stop 'an element'
    end do
  end do
  if (k /= count_of_part) error stop 'the number of elements'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
