! ranks: 4
! Where a process would be in a topology that nobody makes.
      PROGRAM MAPS
      USE MPI_F08
      IMPLICIT NONE
      INTEGER ME, R, KIND
      CALL MPI_INIT()
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME)
      CALL MPI_CART_MAP(MPI_COMM_WORLD, 2, [3, 1], [.FALSE., .FALSE.],
     &                  R)
      IF (ME .LT. 3 .AND. (R .LT. 0 .OR. R .GT. 2)) ERROR STOP 'a place'
      IF (ME .EQ. 3 .AND. R .NE. MPI_UNDEFINED) ERROR STOP 'too many'
      CALL MPI_GRAPH_MAP(MPI_COMM_WORLD, 2, [1, 2], [1, 0], R)
      IF (ME .LT. 2 .AND. (R .LT. 0 .OR. R .GT. 1)) ERROR STOP 'a node'
      IF (ME .GT. 1 .AND. R .NE. MPI_UNDEFINED) ERROR STOP 'no node'
      CALL MPI_TOPO_TEST(MPI_COMM_WORLD, KIND)
      IF (KIND .NE. MPI_UNDEFINED) ERROR STOP 'a topology'
      CALL MPI_FINALIZE()
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
