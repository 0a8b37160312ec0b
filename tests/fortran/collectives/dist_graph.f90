! ranks: 1 2 4
! A distributed graph with weights: each process sends to those above it.
program upward
  use mpi
  implicit none
  integer :: ierr, me, np, graph, i, n_in, n_out
  integer, allocatable :: above(:), below(:), weights(:), sources(:), destinations(:)
  integer, allocatable :: got(:), sent(:)
  integer, allocatable :: in_weights(:), out_weights(:)
  logical :: weighted
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  above = [(i, i=me+1, np-1)]
  below = [(i, i=0, me-1)]
  weights = above * 10
  call MPI_Dist_graph_create(MPI_COMM_WORLD, 1, [me], [size(above)], above, weights, &
                             MPI_INFO_NULL, .false., graph, ierr)
  call MPI_Dist_graph_neighbors_count(graph, n_in, n_out, weighted, ierr)
  if (n_in /= me .or. n_out /= np - 1 - me .or. .not. weighted) error stop 'the numbers'
  allocate (sources(n_in), destinations(n_out), in_weights(n_in), out_weights(n_out))
  call MPI_Dist_graph_neighbors(graph, n_in, sources, in_weights, n_out, destinations, &
                                out_weights, ierr)
  if (sum(sources) /= sum(below) .or. any(in_weights /= 10 * me)) error stop 'the sources'
  if (sum(out_weights) /= sum(weights)) error stop 'the weights'
  allocate (got(n_in))
  sent = 1000 * me + destinations
  call MPI_Neighbor_alltoall(sent, 1, MPI_INTEGER, got, 1, MPI_INTEGER, graph, ierr)
  if (any(got /= 1000 * sources + me)) error stop 'the data'
  call MPI_Comm_free(graph, ierr)
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [me], MPI_UNWEIGHTED, 1, [me], &
                                      MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph, ierr)
  call MPI_Dist_graph_neighbors_count(graph, n_in, n_out, weighted, ierr)
  if (n_in /= 1 .or. n_out /= 1 .or. weighted) error stop 'a loop at each process'
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
